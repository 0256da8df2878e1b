// The frame around all pages: sign-in, navigation, and the end of a session.
import { useEffect, useRef } from "preact/hooks";
import { address, link, type Address } from "./address";
import { pages, type Page } from "./pages";
import { Empty } from "./parts/answer";
import { Away } from "./parts/away";
import { Expiry } from "./parts/expiry";
import { Said } from "./parts/said";
import { SignIn } from "./pages/signin";
import { may, session, signOut, signOutEverywhere, type Session } from "./session";
import { useStore } from "./store";

export function App() {
  const signedIn = useStore(session);
  return signedIn ? <Frame signedIn={signedIn} /> : <SignIn />;
}

function Frame({ signedIn }: { signedIn: Session }) {
  const where = useStore(address);
  const allowed = pages.filter((page) => !page.needs || may(page.needs));
  const page = pages.find(({ name }) => name === (where.path[0] ?? ""));
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        To the content
      </a>
      <header>
        <a class="brand" href={link([])}>secmon</a>
        <Menu {...{ allowed, page }} />
        <Account user={signedIn.user} />
      </header>
      <Main {...{ page, where }} />
      <Said />
      <Expiry />
    </>
  );
}

function Menu({ allowed, page }: { allowed: Page[]; page?: Page }) {
  return (
    <nav aria-label="Pages of the console">
      {allowed.map((one) => (
        <a key={one.name} href={link(one.name ? [one.name] : [])} aria-current={one === page ? "page" : undefined}>{one.title}</a>
      ))}
    </nav>
  );
}

function Account({ user }: { user: string }) {
  const everywhere = () => {
    if (confirm(`End all sessions of ${user}, those of other programs included?`)) signOutEverywhere().catch((problem) => alert(problem.message));
  };
  return (
    <details class="account">
      <summary>{user}</summary>
      <div>
        <button onClick={signOut}>Sign out</button>
        <button onClick={everywhere}>Sign out everywhere</button>
      </div>
    </details>
  );
}

// The focus follows to a page that was opened, so that screen readers begin there.
function Main({ page, where }: { page?: Page; where: Address }) {
  const main = useRef<HTMLElement>(null);
  const name = where.path.join("/");
  useEffect(() => {
    document.title = [...where.path.slice(1).reverse(), page?.title ?? "Not found", "secmon"].join(" · ");
    main.current?.focus();
    window.scrollTo(0, 0);
  }, [name]);
  return (
    <main id="main" ref={main} tabIndex={-1}>
      <Away />
      {page ? <page.Show key={where.path.slice(0, 2).join("/")} path={where.path.slice(1)} filters={where.filters} /> : (
        <Empty>There is no such page. Choose one on the left.</Empty>
      )}
    </main>
  );
}
