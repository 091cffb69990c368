"""The ICML 2025 paper on population AURC, reproduced: data, models, training, studies, figures, tables, claims.

Everything here uses the public functions of `abstain` only. `python -m abstain.paper --help` lists the commands.
"""
