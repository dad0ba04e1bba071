"""What every dralab service shares: API types, CEL, client, informers."""
