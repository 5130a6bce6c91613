// `git.exe` under Wine: runs the git of the system that Wine runs on. For tests only.
//
// Wine starts programs of that system, in the same directory, but neither waits for them nor gives them
// pipes. So a shell script is written that runs git with its output in files and says last how it ended.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#define PATH_MAX_BYTES 512
#define POLL_MS 5

// The files lie in a folder that both systems know, under the name that this one gives it.
static char folder[PATH_MAX_BYTES];

static FILE *open_file(const char *name, const char *mode) {
  char path[PATH_MAX_BYTES];
  snprintf(path, sizeof path, "%s\\%s", folder, name);
  return fopen(path, mode);
}

// Writes one argument for the shell. Paths have other separators there.
static void quote(FILE *script, const char *argument) {
  fputs(" '", script);
  for (const char *c = argument; *c; c++) {
    if (*c == '\'') fputs("'\\''", script);
    else fputc(*c == '\\' ? '/' : *c, script);
  }
  fputc('\'', script);
}

static void pass_on(const char *name, FILE *to) {
  FILE *from = open_file(name, "rb");
  char bytes[4096];
  size_t count;
  while (from && (count = fread(bytes, 1, sizeof bytes, from)) > 0) fwrite(bytes, 1, count, to);
  if (from) fclose(from);
}

int main(int count, char **arguments) {
  snprintf(folder, sizeof folder, "Z:\\tmp\\wine-git-%lu-%lu", GetCurrentProcessId(), GetTickCount());
  if (!CreateDirectoryA(folder, NULL)) return 128;
  FILE *script = open_file("run", "wb");
  if (!script) return 128;
  // The folder as the other system calls it.
  char theirs[PATH_MAX_BYTES];
  strcpy(theirs, folder + 2);
  for (char *c = theirs; *c; c++) if (*c == '\\') *c = '/';
  fprintf(script, "files=%s; git", theirs);
  for (int i = 1; i < count; i++) quote(script, arguments[i]);
  fputs(" < /dev/null > $files/out 2> $files/err; echo $? > $files/code.part; mv $files/code.part $files/code\n", script);
  fclose(script);
  char command[PATH_MAX_BYTES];
  snprintf(command, sizeof command, "Z:\\bin\\sh %s/run", theirs);
  STARTUPINFOA startup = {sizeof startup};
  PROCESS_INFORMATION process;
  if (!CreateProcessA(NULL, command, NULL, NULL, FALSE, 0, NULL, NULL, &startup, &process)) return 128;
  FILE *ended;
  while (!(ended = open_file("code", "rb"))) Sleep(POLL_MS);
  int code = 128;
  if (fscanf(ended, "%d", &code) != 1) code = 128;
  fclose(ended);
  pass_on("out", stdout);
  pass_on("err", stderr);
  const char *names[] = {"run", "out", "err", "code"};
  for (int i = 0; i < 4; i++) {
    char path[PATH_MAX_BYTES];
    snprintf(path, sizeof path, "%s\\%s", folder, names[i]);
    DeleteFileA(path);
  }
  RemoveDirectoryA(folder);
  return code;
}
