#include "tests/plugins/shim/host_shim.h"

#include <mutex>

namespace foretrain::shim {

void Launch(dim3 grid, dim3 block, std::size_t dynamic_bytes, const char* kernel,
            const std::function<void()>& body) {
  static std::mutex mutex;  // __shared__ variables are static
  const std::lock_guard<std::mutex> lock(mutex);
  simt::Launch launch;
  launch.kernel = kernel;
  launch.grid = {grid.x, grid.y, grid.z};
  launch.block = {block.x, block.y, block.z};
  launch.shared_bytes = dynamic_bytes;
  launch.order = order;
  launch.run = [&](simt::Thread&) { body(); };
  const simt::Outcome outcome = simt::Execute(launch);
  if (outcome.fault == simt::Fault::kNone) return;
  std::fprintf(stderr, "shim: %s\n", outcome.sentence.c_str());
  ++failures;
}

}  // namespace foretrain::shim
