"""What a simulated agent knows of its host: files, inventory, assessments, and how it reports them."""
