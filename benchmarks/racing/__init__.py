"""The race: the library against its peers on the work both can do; `python benchmarks/race.py`.

=================  ==========================================================================
`racing.events`    what is raced: instances, contestants, how results are compared
`racing.contests`  one contestant, one instance: a process with limits, whatever it does
`racing.peers`     the peers' environments, made and kept by the suite
`racing.report`    the table, the growth, the picture, the page of the documentation
`contestants/`     one small file for each opponent
=================  ==========================================================================
"""
