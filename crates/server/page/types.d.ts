// The JSON of docs/api.md, as far as the page reads it, for the type checker only: this file is not served.

export type Markdown = string | MarkdownElement;
export interface MarkdownElement { tag: string; children?: Markdown[]; href?: string; lang?: string; start?: number; checked?: boolean | null }

export interface Project { project: string; name: string; path: string; problem: string | null }
export interface Server {
  version: string; now: number; started_at: number; is_read_only: boolean; budget_max_usd: number | null; projects: Project[];
}
export interface Now { agent: string; state: string; phase: string; since: number | null; activity: string | null; heard_at?: number | null }
export interface Choice { label: string; leads_to: string | null }
export interface Attachment { name: string; path?: string; bytes: number | null; sha256?: string | null; shown_as: 'text' | 'image' | 'download' | null; problem?: string | null }
export interface Answer { label: string | null; text: string | null; by: string | null; how: string | null; at: number }
export interface Ask {
  is_whole: boolean;
  project: string; run: string; ask: string; agent: string; state: string; name: string; question: string; markdown?: Markdown[];
  choices: Choice[]; next: string | null; attachments?: Attachment[]; asked_at: number; deadline: number | null; default: string | null;
  step?: string | null; answer?: Answer | null;
}
export type Status = 'running' | 'died' | 'completed' | 'failed' | 'stopped' | 'paused' | 'cancelled' | 'unreadable';
export type Group = 'needs_you' | 'running' | 'waiting' | 'ended';
export interface Row {
  project: string; run: string; status: Status; group: Group; workflow?: string; name?: string; workflow_key?: string | null;
  started_at?: number; last_at?: number | null; waiting_since?: number | null; agents?: number; steps?: number;
  states_entered?: number; max_iterations?: number | null; total_cost_usd?: number | null; budget_usd?: number | null;
  now?: Now | null; why?: string | null; halted?: string | null; usage_limit?: { resets_at: number | null } | null;
  stopped_agents?: { coding_agent: string; resets_at: number | null }[];
  denied?: number; asks?: Ask[]; result?: string | null; error?: string | null;
}
export interface Summary { needs_you: number; running: number; waiting: number; ended: number; cost_today_usd: number | null }
export interface Rows { runs: Row[]; next: string | number | null; summary: Summary }

export interface Came { from: string; to: string; kind: string }
export interface Worktree { path: string; branch: string; base: string; head: string | null; problem: string | null }
export interface Agent {
  agent: string; parent: string | null; born: number | null; state: string | null; phase: string; error: string | null;
  step: number | null; since: number | null; heard_at?: number | null; tool: string | null; activity: string | null; cost_usd: number | null; steps: number | null;
  returns_to: string[]; attributes: Record<string, string> | null; cwd: string | null; session: string | null;
  waits_until: number | null; waits_why?: string | null; came: Came | null; is_ended: boolean; result: string | null; workers?: { ended: number; all: number } | null;
  denied: number; offset: number; ended_at?: number | null; worktree?: Worktree | null;
}
export interface UsageWindow { coding_agent: string; window: string; label: string; used_percent: number; resets_at: number | null }
export interface Run extends Row {
  usage_windows?: UsageWindow[];
  offset: number; cwd?: string | null; entry?: string | null; input?: string | null; metadata?: Record<string, unknown> | null;
  settings?: Record<string, unknown>; limits?: Record<string, number | null>;
  orchestrator?: { pid: number; since: number } | null; ended_at?: number | null; agents_born?: number; can?: string[];
  next?: string | null;
}
export interface Tokens { input?: number; output?: number; cache_read?: number; cache_write?: number }
export interface Step {
  step: string; agent: string; number: number; index: number; state: string; kind: string; attempt: number;
  started_at: number | null; ended_at: number | null; duration_ms: number | null; cost_usd: number | null; tokens: Tokens | null;
  model: string | null; version: string | null; end: string | null; tag: string | null; to: string | null; worker: string | null; text: string | null;
  denied: string[]; offset: number;
}
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
export interface Account { name?: string; cost_usd: number | null; steps: number; duration_ms?: number; tokens?: Tokens; runs?: number }
export interface Cost { total: Account; by_state: Account[]; by_model: Account[]; by_version: Account[]; by_agent: Account[] }
export interface Bar {
  step: string; steps: number; from: number; to: number | null; state: string; kind: string; end: string | null; cost_usd: number | null;
}
export interface Lane { agent: string; parent: string | null; born: number | null; is_ended: boolean; bars: Bar[] }
export interface Timeline { from: number; to: number; lanes: Lane[]; lanes_left_out: number }

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
export interface Finding { rule: string; severity: string; file: string | null; line?: number | null; message: string; help: string | null }
export interface WorkflowDetail {
  workflow: string; name: string; path: string; project: string; problem: string | null; graph: Graph; findings: Finding[];
  form: { takes_input: boolean; needs_input?: boolean; variables: string[]; budget_usd: number | null; budget_max_usd: number | null };
  runs: Row[]; cost_by_state: Account[];
}
