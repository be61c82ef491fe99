// What tests tell their libcudnn.so.9, tests/plugins/fake_cudnn.cc, and what it tells them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace foretrain {

struct FakeCudnn {
  std::size_t version = 91900;
  std::int64_t calls = 0;     // of any that can fail
  std::int64_t fail_at = -1;  // this one does, counted from 0
  bool has_engine = true;     // for any graph
  int refused_configs = 0;    // the first of a graph's two that no plan is made of
  std::int64_t most_bytes = std::int64_t{1} << 40;  // a plan's workspace; else it has none
  std::int64_t live = 0;                            // descriptors and handles
  int plans = 0;                                    // made
  int runs = 0;
  std::vector<std::vector<std::int64_t>> ran;  // of each run the sizes of tensor 1, the queries
  std::string wrong;  // the first thing that a caller did against the rules

  void Reset() { *this = {}; }
};

}  // namespace foretrain
