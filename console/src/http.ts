// HTTP requests to the node that served this page, and what its refusals say.
import { Store } from "./store";

export type Query = Record<string, string | number | boolean | undefined>;

export const PERMISSION_DENIED = 4000;

// What went wrong, in the words of the API: title, detail and what to do.
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly remediation = "",
    readonly code = 0,
  ) {
    super(detail || title);
  }

  get denied(): boolean {
    return this.code === PERMISSION_DENIED || this.status === 403;
  }
}

export function url(path: string, query: Query = {}): string {
  const params = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = params.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`).join("&");
  return text ? `${path}?${text}` : path;
}

const AGAIN_MS = 500;

export const away = new Store<Problem | null>(null); // why the node cannot be reached, while it cannot

// Send a request; one that may be sent twice is sent again when the connection is lost, as it is when a network changes.
export async function reach(address: string, init: RequestInit, repeatable = (init.method ?? "GET") === "GET"): Promise<Response> {
  try {
    const answer = await fetch(address, { ...init, cache: "no-store", credentials: "omit", redirect: "error" });
    away.set(null);
    return answer;
  } catch (error) {
    if (init.signal?.aborted) throw error;
  }
  if (repeatable) {
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    return reach(address, init, false);
  }
  const problem = new Problem(
    0, "The node does not answer", `There is no connection to ${location.host}.`,
    "Check that the node runs and that the network reaches it, or open the console of another node.",
  );
  away.set(problem);
  throw problem;
}

export async function problemOf(answer: Response): Promise<Problem> {
  const said = await answer.json().catch(() => ({}));
  return new Problem(answer.status, said.title ?? answer.statusText, said.detail ?? "", said.remediation, said.error);
}
