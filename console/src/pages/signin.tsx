import { useEffect, useRef } from "preact/hooks";
import { ProblemNotice } from "../parts/answer";
import { useAction } from "../load";
import { signIn } from "../session";

export function SignIn() {
  const user = useRef<HTMLInputElement>(null);
  const { busy, problem, run } = useAction();
  useEffect(() => {
    document.title = "Sign in · secmon";
    user.current?.focus();
  }, []);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    run(() => signIn(String(form.get("username")), String(form.get("password"))));
  };
  return (
    <main class="signin">
      <form class="card" onSubmit={submit}>
        <h1>secmon</h1>
        <p class="quiet">Sign in to the node {location.host} as a user of its API.</p>
        <label><span>User</span><input ref={user} name="username" autocomplete="username" required spellcheck={false} /></label>
        <label><span>Password</span><input type="password" name="password" autocomplete="current-password" required /></label>
        <ProblemNotice problem={problem} />
        <button class="primary" disabled={busy}>{busy ? "Signing in …" : "Sign in"}</button>
        <p class="quiet">A reload of the page asks for the password again: the console stores nothing in the browser.</p>
      </form>
    </main>
  );
}
