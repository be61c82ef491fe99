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
  std::string address;
  int port = 0;
};

// The first launcher whose variables are set counts:
//
//   RANK, WORLD_SIZE, LOCAL_RANK          torchrun, or by hand
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK   mpirun of Open MPI
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID   mpirun of MPICH and Intel MPI
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID   srun
//
// MASTER_ADDR and MASTER_PORT say where rank 0 listens. If all ranks are on one machine, which all
// but the first launcher report, the defaults are 127.0.0.1 and 29500. Under torchrun, which uses
// the port itself, the next port is used.
//
//   get  reads the environment; null if a variable is not set
//
// Errors: kInvalidArgument, naming the variable and its value.
Result<LaunchedRank> ReadLaunchedRank(const char* (*get)(const char* name));

}  // namespace foretrain
