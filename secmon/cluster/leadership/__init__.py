"""Who is master: the term in the store of record, what to do about it, and what the node's daemons see of it."""
