// A value that many parts of the console show, and that tells them when it changes.
import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  private listeners = new Set<() => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (value === this.current) return;
    this.current = value;
    for (const listener of [...this.listeners]) listener();
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

// The value, drawn again when it changes. Effects run some time after what they belong to was drawn, so a change in
// between is found when the listening begins.
export function useStore<T>(store: Store<T>): T {
  const [, redraw] = useState({});
  const shown = store.value;
  useEffect(() => {
    if (store.value !== shown) redraw({});
    return store.listen(() => redraw({}));
  }, [store]);
  return shown;
}
