// Options shared by commands that execute a plan or measure a machine. Leaves out the options of
// the plan itself: app/cli/flags/plan_flags.h.
#pragma once

#include "app/cli/arguments.h"
#include "runtime/device/nvme_file.h"
#include "runtime/executor/executor.h"

namespace foretrain {

// --cuda-graphs
void DeclareGraphs(Arguments& arguments, bool& graphs);

// --nvme, --cap-copy and --cap-nvme: the disk for offloaded tensors, and how fast copies may be.
void DeclareOffloadLinks(Arguments& arguments, NvmeOptions& nvme, CopyCaps& caps);

}  // namespace foretrain
