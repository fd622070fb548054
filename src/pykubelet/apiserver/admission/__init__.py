"""Those who have a word in what is written: webhooks, policies, and the security levels of namespaces."""
