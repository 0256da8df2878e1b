"""What is known of the world outside: tactics and techniques of attackers."""
