"""Reports: content built from marts, written as Markdown, JSON and one figure."""
