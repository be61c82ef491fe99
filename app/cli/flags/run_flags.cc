#include "app/cli/flags/run_flags.h"

#include "base/units.h"

namespace foretrain {

void DeclareGraphs(Arguments& arguments, bool& graphs) {
  arguments.Choice("--cuda-graphs", graphs, {{"on", true}, {"off", false}},
                   "Launch the kernels that each step repeats as CUDA graphs");
}

void DeclareOffloadLinks(Arguments& arguments, NvmeOptions& nvme, CopyCaps& caps) {
  arguments.Option("--nvme", nvme.folder, "DIR",
                   "Folder on the disk that holds tensors offloaded to nvme");
  // One option caps both directions, because PCIe has the same rate each way.
  arguments.Parsed("--cap-copy", "RATE",
                   "Limit copies between host and device to this rate, e.g. 2GB/s",
                   [&caps](const std::string& name, const std::string& text) -> Result<void> {
                     FT_ASSIGN(caps.h2d_bytes_per_s, ParseBytesPerSecond(name, text));
                     caps.d2h_bytes_per_s = caps.h2d_bytes_per_s;
                     return {};
                   });
  arguments.BytesPerSecond("--cap-nvme", caps.nvme_bytes_per_s,
                           "Limit reads and writes of the disk to this rate");
}

}  // namespace foretrain
