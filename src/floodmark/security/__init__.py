"""Who may do what, and how much of it: ACL matching and quota arithmetic. PURE."""
