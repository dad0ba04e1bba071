"""Kinds of jobs that operators define: JobSet, LeaderWorkerSet, RayCluster, RayJob, MPIJob and TrainJob.

Pure: the controllers make their pods (``dra_controller.jobkinds``), and others only ask which pods there will be.
"""
