// The JSON of docs/api.md, as far as the page reads it, for the type checker only: this file is not served.

// Made from crates/engine/src/observe/views/shown.rs by a test.
export interface Tokens { cache_read?: number; cache_write?: number; input?: number; output?: number }
export interface Row {
  run: string;
  status: 'running' | 'died' | 'completed' | 'failed' | 'stopped' | 'paused' | 'cancelled' | 'unreadable' | 'foreign';
  group: 'needs_you' | 'running' | 'waiting' | 'ended';
  workflow: string | null;
  name: string | null;
  started_at: number | null;
  last_at: number | null;
  waiting_since: number | null;
  agents: number | null;
  steps: number | null;
  states_entered: number | null;
  max_iterations: number | null;
  total_cost_usd: number | null;
  budget_usd: number | null;
  now: Now | null;
  why: string | null;
  halted: string | null;
  halt: any | null;
  usage_limit: Limited | null;
  stopped_agents: Stopped[];
  denied: number;
  asks: Ask[];
  result: string | null;
  error: string | null;
  project: string;
  workflow_key: string | null;
}
export interface Limited {
  resets_at: number | null;
}
export interface Stopped {
  coding_agent: string;
  resets_at: number | null;
}
export interface Now {
  agent: string;
  state: string;
  phase: string;
  since: number | null;
  activity: string | null;
  heard_at: number | null;
}
export interface Ask {
  ask: string;
  agent: string;
  state: string;
  question: string;
  is_whole: boolean;
  choices: Choice[];
  next: string | null;
  asked_at: number;
  deadline: number | null;
  default: string | null;
  project: string;
  run: string;
  name: string | null;
}
export interface Choice {
  label: string;
  to: string;
}
export interface Run extends Row {
  offset: number;
  identity: string;
  cwd: string | null;
  entry: string | null;
  input: string | null;
  metadata: Record<string, string>;
  settings: any;
  limits: any;
  coding_agents: string[];
  usage_windows: UsageWindow[];
  result_bytes: number | null;
  orchestrator: Orchestrator | null;
  ended_at: number | null;
  agents_born: number;
  can: string[];
  problem: string | null;
  next: string | null;
}
export interface StatusReport {
  run: string;
  status: 'running' | 'died' | 'completed' | 'failed' | 'stopped' | 'paused' | 'cancelled' | 'unreadable' | 'foreign';
  workflow: string;
  coding_agents: string[];
  started_at: number;
  last_at: number | null;
  total_cost_usd: number;
  budget_usd: number | null;
  states_entered: number;
  max_iterations: number | null;
  halted: string | null;
  usage_limit: Limited | null;
  stopped_agents: Stopped[];
  usage_windows: UsageWindow[];
  result: string | null;
  agents: Agent[];
  next: string | null;
}
export interface UsageWindow {
  coding_agent: string;
  window: string;
  label: string;
  used_percent: number;
  resets_at: number | null;
}
export interface Orchestrator {
  pid: number;
  since: number;
}
export interface Agent {
  agent: string;
  parent: string | null;
  born: number;
  state: string | null;
  phase: string;
  error: string | null;
  step: number | null;
  since: number;
  heard_at: number | null;
  tool: string | null;
  activity: string | null;
  cost_usd: number | null;
  steps: number | null;
  returns_to: string[];
  attributes: Record<string, string>;
  cwd: string | null;
  session: string | null;
  waits_until: number | null;
  waits_why: string | null;
  came: Came | null;
  is_ended: boolean;
  ended_at: number | null;
  result: string | null;
  workers: Workers | null;
  denied: number;
  offset: number;
  worktree: Worktree | null;
}
export interface Workers {
  ended: number;
  all: number;
}
export interface Worktree {
  path: string;
  branch: string;
  base: string;
  head: string | null;
  problem: string | null;
}
export interface Timeline {
  from: number;
  to: number;
  lanes: Lane[];
  lanes_left_out: number;
}
export interface Lane {
  agent: string;
  parent: string | null;
  born: number | null;
  is_ended: boolean;
  bars: Bar[];
}
export interface Bar {
  step: string;
  steps: number;
  from: number;
  to: number | null;
  state: string;
  kind: string;
  cost_usd: number;
  end: string | null;
}
export interface Cost {
  total: Account;
  by_state: NamedAccount[];
  by_model: NamedAccount[];
  by_version: NamedAccount[];
  by_agent: NamedAccount[];
}
export interface NamedAccount extends Account {
  name: string;
}
export interface Step {
  step: string;
  agent: string;
  number: number;
  index: number;
  state: string;
  kind: string;
  attempt: number;
  started_at: number;
  ended_at: number | null;
  duration_ms: number | null;
  cost_usd: number | null;
  tokens: Tokens | null;
  model: string | null;
  version: string | null;
  end: string | null;
  tag: string | null;
  to: string | null;
  worker: string | null;
  text: string | null;
  denied: string[];
  offset: number;
}
export interface Came {
  from: string;
  to: string;
  kind: string;
}
export interface Account {
  cost_usd: number;
  estimated_usd: number;
  steps: number;
  duration_ms: number;
  tokens: Tokens;
}
// Written by hand from here on.
export type Markdown = string | MarkdownElement;
export interface MarkdownElement { tag: string; children?: Markdown[]; href?: string; lang?: string; start?: number; checked?: boolean | null }

export interface Project { project: string; name: string; path: string; problem: string | null }
export interface Server {
  version: string; now: number; started_at: number; is_read_only: boolean; budget_max_usd: number | null; projects: Project[];
}
export interface Attachment { name: string; path?: string; bytes: number | null; sha256?: string | null; shown_as: 'text' | 'image' | 'download' | null; problem?: string | null }
export interface Answer { label: string | null; text: string | null; by: string | null; how: string | null; at: number }
export interface AskDetail extends Ask { markdown?: Markdown[] | null; attachments?: Attachment[]; step?: string | null; answer?: Answer | null }
export type Status = 'running' | 'died' | 'completed' | 'failed' | 'stopped' | 'paused' | 'cancelled' | 'unreadable' | 'foreign';
export type Group = 'needs_you' | 'running' | 'waiting' | 'ended';
export interface Summary { needs_you: number; running: number; waiting: number; ended: number; cost_today_usd: number | null }
export interface Rows { runs: Row[]; next: string | number | null; summary: Summary }

export interface StepDetail extends Step {
  worktree?: Worktree | null;
  session?: string | null; effort?: string | null; allowed?: string[] | null; files?: { name: string; bytes: number }[];
  previous?: string | null; following?: string | null; events?: LogEvent[];
}
export interface Steps { steps: Step[]; next: string | number | null; count: number }
export interface LogEvent { event: string; at: number; offset?: number; agent?: string; number?: number; [field: string]: unknown }

export interface GraphNode { name: string; kind: string; is_entry: boolean; center: [number, number]; width: number; height: number }
export interface GraphLink { from: number; to: number; kind: string; path: string; label: string; label_at: [number, number] | null }
export interface Visit { steps: number; cost_usd: number | null; duration_ms: number; failures: number }
export interface Graph {
  fingerprint: string; size: [number, number]; nodes: GraphNode[]; links: GraphLink[];
  visits?: Record<string, Visit>; taken?: { link: number; count: number }[]; problem?: string | null;
}

export interface Diff { path: string; cut: number; hunks: { old_start: number; new_start: number; lines: [string, string][] }[] }
export interface Entry {
  entry: string; index?: number; text?: string; cut?: number; markdown?: Markdown[] | null; id?: string; name?: string; summary?: string | null;
  outcome?: string; message?: string | null; input?: string | null; output?: string | null; input_cut?: number; output_cut?: number;
  diff?: Diff | null; stream?: string; left_out?: number; tag?: string | null; usd?: number | null; duration_ms?: number | null; model?: string | null;
}
export interface Transcript { entries: Entry[]; next: number; is_over: boolean }

export interface Workflow {
  workflow: string; name: string; path: string; project: string; states: number; errors: number; warnings: number; runs: number; problem: string | null;
}
export interface CostRow { name: string; cost_usd: number; steps: number; duration_ms?: number; tokens?: Tokens; runs?: number }
export interface Finding { rule: string; severity: string; file: string | null; line?: number | null; message: string; help: string | null }
export interface WorkflowDetail {
  workflow: string; name: string; path: string; project: string; problem: string | null; graph: Graph; findings: Finding[];
  form: { takes_input: boolean; needs_input?: boolean; variables: string[]; budget_usd: number | null; budget_max_usd: number | null };
  runs: Row[]; cost_by_state: CostRow[];
}
