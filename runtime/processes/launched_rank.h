// Which rank of how many a launcher has made this process, and where they meet: torchrun, mpirun,
// srun, or variables set by hand. Leaves out what they then do: runtime/processes/process_group.h.
#pragma once

#include <string>

#include "base/result.h"

namespace foretrain {

struct LaunchedRank {
  int rank = 0;
  int world = 1;  // 1: nobody launched several
  int local = 0;  // among the ranks of this machine: the GPU that it takes
  std::string address;
  int port = 0;
};

// Of the first launcher whose variables are set:
//
//   RANK, WORLD_SIZE, LOCAL_RANK          torchrun, or by hand
//   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK   mpirun of Open MPI
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID   mpirun of MPICH and Intel MPI
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID   srun
//
// MASTER_ADDR and MASTER_PORT say where rank 0 listens. Where all ranks are on one machine, which
// all but the first launcher tell, they are 127.0.0.1 and 29500 unless set. Below torchrun, which
// listens there itself, it is the port behind.
//
//   get  of the environment; null where a variable is not set
//
// Errors: kInvalidArgument, naming the variable and its value.
Result<LaunchedRank> ReadLaunchedRank(const char* (*get)(const char* name));

}  // namespace foretrain
