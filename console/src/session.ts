// Who is signed in. The token is kept in the memory of this page only: no other page, tab or program of the browser can
// read it, and a reload asks for the password again.
import { problemOf, reach, url } from "./http";
import { Store } from "./store";

export interface Session {
  user: string;
  token: string;
  ends: number; // by this browser's clock, milliseconds
  permissions: Permissions;
  mode: string;
}

// For each action the resources, with what is said of them.
export type Permissions = Record<string, Record<string, string>>;

export const session = new Store<Session | null>(null);
export const ended = new Store(false); // the session has ended while its pages are shown

const LOGIN = "/security/user/authenticate";

export async function signIn(user: string, password: string): Promise<void> {
  const credentials = btoa(String.fromCharCode(...new TextEncoder().encode(`${user}:${password}`)));
  const answer = await reach(url(LOGIN, { raw: true }), {
    method: "POST",
    headers: { Authorization: `Basic ${credentials}` },
  }, true);
  if (!answer.ok) throw await problemOf(answer);
  const token = await answer.text();
  const claims = claimsOf(token);
  // The clock of the node may differ from ours: only the length of the session is taken from the token.
  const ends = Date.now() + (claims.exp - claims.nbf) * 1000;
  const permissions = await permissionsOf(token);
  session.set({ user, token, ends, permissions, mode: claims.rbac_mode });
  ended.set(false);
}

export function signOut(): void {
  session.set(null);
  ended.set(false);
}

// Revokes all tokens of the user, those of other programs included.
export async function signOutEverywhere(): Promise<void> {
  const headers = { Authorization: `Bearer ${session.value?.token ?? ""}` };
  const answer = await reach(LOGIN, { method: "DELETE", headers });
  if (!answer.ok && answer.status !== 401) throw await problemOf(answer);
  signOut();
}

export function sessionEnded(): void {
  if (session.value) ended.set(true);
}

// Whether the user may do something to at least one resource. The API decides; this hides what would only be refused.
export function may(action: string): boolean {
  const { permissions, mode } = session.value ?? { permissions: {} as Permissions, mode: "white" };
  const effects = Object.entries(permissions[action] ?? {});
  if (mode === "black") return !effects.some(([resource, effect]) => resource.endsWith(":*") && effect === "deny");
  return effects.some(([, effect]) => effect === "allow");
}

async function permissionsOf(token: string): Promise<Permissions> {
  const answer = await reach("/security/users/me/policies", { headers: { Authorization: `Bearer ${token}` } });
  if (!answer.ok) throw await problemOf(answer);
  return (await answer.json()).data;
}

interface Claims {
  nbf: number;
  exp: number;
  rbac_mode: string;
}

function claimsOf(token: string): Claims {
  const part = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
  return JSON.parse(atob(part));
}
