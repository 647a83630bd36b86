"""`duckanon explore`: a page for the choices before a release. Its libraries come with the extra `explore`."""
