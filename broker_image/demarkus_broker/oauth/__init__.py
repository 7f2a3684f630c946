"""The authorization server: people sign in at the company's provider, clients get tokens for this gateway.

Pure: errors (the RFCs' codes), parameters (forms and queries), redirects (where people may be sent), pkce, resources
(which resource is meant), scopes, clients (who they are, how they show it), registration (what they may register),
requests (authorization requests judged), tokens (access tokens), metadata (the document), seals (what browsers keep).
"""
