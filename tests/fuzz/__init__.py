"""Generated requests against a real cluster: whatever is asked, the answer is one that the API description declares."""
