"""Between API Gateway's events and the use cases: requests, replies, errors and views."""
