"""The client of the API server: requests, informers, work queues, leader election and events."""
