// Settings of the tests' CUDA runtime, from the environment variable FORETRAIN_FAKE_CUDA: a list
// such as "gpus=2,order=random,fail=cudaMalloc:3". A wrong one ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/plugins/simt/simt.h"

namespace foretrain::cudart {

struct Settings {
  int gpus = 1;
  int capability = 90;              // compute capability: 10 * major + minor
  int multiprocessors = 2;          // few, so that blocks take several tiles
  std::size_t memory = 8ULL << 30;  // of each GPU; "memory" is in MiB
  simt::Order order = simt::Order::kForward;
  bool races = true;          // looks for races in shared memory
  bool libraries = true;      // cuBLASLt computes products; "libraries=0": it refuses them
  bool nccl_threads = false;  // NCCL gives each call to the stream in a thread of its own
  std::uint64_t late = 0;     // seed of sleeps up to 200 µs before each work item; 0: none
  std::string fail_function;  // "fail=FUNCTION:N": its call N, from 1, fails
  std::int64_t fail_call = 0;
  std::string mutant_entry;  // "mutant=ENTRY:SITE": this instruction behaves wrongly
  int mutant_site = -1;
  std::string report;  // file that is written at exit; empty: none

  // Maximum shared memory of a block of this capability.
  std::size_t shared_bytes() const;
};
const Settings& TheSettings();

}  // namespace foretrain::cudart
