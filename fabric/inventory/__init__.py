"""The hardware as it is: sites, pods, hosts, DPUs, SSDs, switches, network interfaces; each fact with its source
and time.
"""
