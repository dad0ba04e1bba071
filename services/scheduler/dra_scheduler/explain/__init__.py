"""Why a pod is where it is, or nowhere: told from the allocator's own trace."""
