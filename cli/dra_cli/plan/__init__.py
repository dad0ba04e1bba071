"""``dralab plan`` and its kin: worlds read from anywhere, and answers shown."""
