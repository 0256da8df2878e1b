"""Active responses: what the engine has decided is sent to agents, or run at this server."""
