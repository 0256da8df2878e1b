"""Alerts in bulk to OpenSearch or Elasticsearch, in daily indices."""
