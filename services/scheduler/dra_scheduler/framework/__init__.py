"""What plugins plug into: extension points, statuses, cycle state, and what is known of nodes."""
