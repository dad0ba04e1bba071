"""Run the driver suite on published DRA drivers, built from their sources."""
