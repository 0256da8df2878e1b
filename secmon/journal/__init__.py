"""Events between the agent link, which receives them, and what analyses them."""
