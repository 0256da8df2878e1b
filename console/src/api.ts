// What pages ask of the API, in the name of the user who is signed in.
import { Problem, problemOf, reach, url, type Query } from "./http";
import { session, sessionEnded } from "./session";

export const NO_CLUSTER = 3013; // the code of errors of nodes that run alone

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Item = { [name: string]: any };

export interface Failure {
  error: { code: number; message: string; remediation?: string };
  id: (string | number)[];
}

export interface Collection<T = Item> {
  affected_items: T[];
  total_affected_items: number;
  failed_items: Failure[];
}

// Nodes that did not answer, by name, in an answer that is complete but for them.
export type NodeErrors = Record<string, { error: string; logfile?: string }>;

export interface Answer<T> {
  data: T;
  message?: string;
  error?: number;
  dapi_errors?: NodeErrors;
}

export interface Options {
  query?: Query;
  body?: string | Json;
  type?: string;
  signal?: AbortSignal;
}

// Path segments with their values escaped: at`/agents/${id}/key`.
export function at(parts: TemplateStringsArray, ...values: (string | number)[]): string {
  return parts.reduce((path, part, index) => path + encodeURIComponent(values[index - 1] ?? "") + part);
}

export async function send(method: string, path: string, options: Options = {}): Promise<Response> {
  const { body, type = "application/json", signal } = options;
  const headers: Record<string, string> = { Authorization: `Bearer ${session.value?.token ?? ""}` };
  if (body !== undefined) headers["Content-Type"] = type;
  const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
  const answer = await reach(url(path, options.query), { method, headers, body: text, signal });
  if (answer.status === 401) sessionEnded();
  return answer;
}

export async function request<T>(method: string, path: string, options: Options = {}): Promise<Answer<T>> {
  const answer = await send(method, path, options);
  if (!answer.ok) throw await problemOf(answer);
  return answer.json();
}

export function get<T = Collection>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Answer<T>> {
  return request<T>("GET", path, { query, signal });
}

export async function text(path: string, query: Query = {}, signal?: AbortSignal): Promise<string> {
  const answer = await send("GET", path, { query, signal });
  if (!answer.ok) throw await problemOf(answer);
  return answer.text();
}

// Do something; raises the first item that failed, since a request of the console names one thing.
export async function act(method: string, path: string, options: Options = {}): Promise<Answer<Collection>> {
  const answer = await request<Collection>(method, path, options);
  const failed = answer.data?.failed_items?.[0];
  if (failed) throw new Problem(200, answer.message ?? "", failed.error.message, failed.error.remediation, failed.error.code);
  return answer;
}
