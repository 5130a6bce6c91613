#!/usr/bin/env node
// Runs the program of the platform's package: it stands in for this process where Node.js can do that, otherwise as a child whose
// signals and exit code are passed on.
"use strict";
const { spawn } = require("node:child_process");

const name = `raymond-agents-${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "raymond.exe" : "raymond";
let program;
try {
  program = require.resolve(`${name}/bin/${file}`);
} catch {
  console.error(`raymond: the package ${name} is not installed. Either there is no program for this system, or npm was told to`);
  console.error("leave out optional dependencies: install raymond-agents again without --omit=optional.");
  process.exit(1);
}
const words = process.argv.slice(2);
if (process.platform !== "win32" && typeof process.execve === "function") {
  process.removeAllListeners("warning");
  process.execve(program, [program, ...words], process.env);
}
const child = spawn(program, words, { stdio: "inherit" });
// A terminal sends Ctrl-C to both: the program decides what it means. Other signals reach only this process.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`raymond: ${program} cannot be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
