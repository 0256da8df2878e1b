// Tells that the session is about to end before it does, and goes on with it when the password is given again.
import { useEffect, useState } from "preact/hooks";
import { useAction } from "../load";
import { ended, session, signIn, signOut } from "../session";
import { useStore } from "../store";
import { ProblemNotice } from "./answer";

const TOLD_BEFORE_SECONDS = 60;

export function Expiry() {
  const signedIn = useStore(session);
  const over = useStore(ended);
  const [now, setNow] = useState(Date.now());
  const { busy, problem, run } = useAction();
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const left = Math.ceil(((signedIn?.ends ?? 0) - now) / 1000);
  if (!signedIn || (left > TOLD_BEFORE_SECONDS && !over)) return null;
  const isOver = over || left <= 0;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const password = new FormData(event.currentTarget as HTMLFormElement).get("password");
    run(() => signIn(signedIn.user, String(password)));
  };
  return (
    <form class="expiry" onSubmit={submit} aria-label="The end of the session">
      <p role="alert">
        {isOver ? "The session has ended. What you see may be old." : "The session ends soon. What you have typed stays."}
      </p>
      {!isOver && <p aria-hidden="true">{left} s</p>}
      <input type="text" name="username" autocomplete="username" value={signedIn.user} hidden readOnly />
      <label>
        <span>Password of {signedIn.user}</span>
        <input type="password" name="password" autocomplete="current-password" required />
      </label>
      <button class="primary" disabled={busy}>Stay signed in</button>
      <button type="button" onClick={signOut}>Sign out</button>
      <ProblemNotice problem={problem} />
    </form>
  );
}
