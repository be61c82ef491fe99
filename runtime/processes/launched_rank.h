// Rank and world size that a launcher (torchrun, mpirun, srun, or the user) gave this process, and
// the address where ranks meet. runtime/processes/process_group.h uses it.
#pragma once

#include <string>

#include "base/result.h"

namespace foretrain {

struct LaunchedRank {
  int rank = 0;
  int world = 1;  // 1: not launched as one of several
  int local = 0;  // index on this machine: the GPU to use
  std::string address;  // where rank 0 listens; a host name or IPv4 address
  int port = 0;
  std::string token{};  // the job's secret; empty: none was given
};

// The first launcher whose variables are set counts:
//
//   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE   torchrun, or by hand (the last two optional)
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK   mpirun of Open MPI
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID   mpirun of MPICH and Intel MPI
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID   srun
//
// MASTER_ADDR and MASTER_PORT say where rank 0 listens. If the launcher reports that all ranks are
// on one machine, they meet at 127.0.0.1, which other machines cannot reach, whatever MASTER_ADDR
// says; the port is then 29500 by default. Under torchrun, which uses the port itself, the next port
// is used. FORETRAIN_JOB_TOKEN is the job's secret.
//
//   get  reads the environment; null if a variable is not set
//
// Errors: kInvalidArgument, naming the variable and its value.
Result<LaunchedRank> ReadLaunchedRank(const char* (*get)(const char* name));

}  // namespace foretrain
