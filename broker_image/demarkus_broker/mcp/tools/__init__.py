"""The tools of the gateway, one module each.

tool       what a tool is made of: row, call, outcome, refusal, and the port to the worlds
address    `mark://<world>/<path>` as an argument: parse, refuse, print
answers    from a world's response to an outcome, with what helps next
reading    what tools that show text share: outline, section
primer     mark://<world>/.context, put together from a world's documents
matches    what the lookups share: arguments, request, table
expansion  text of what a lookup found, within a budget
writing    what publish and append share: conflict, lost answer, stamped metadata
fetch      mark_fetch          listing    mark_list           versions   mark_versions       worlds     mark_worlds
lookup     mark_lookup         lookup_all mark_lookup_all
explore    mark_explore        discover   mark_discover       resolve    mark_resolve
publish    mark_publish        append     mark_append         archive    mark_archive
table      all of them by name; what is not in it is refused
"""
