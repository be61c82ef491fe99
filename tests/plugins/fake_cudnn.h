// Controls and records of the tests' libcudnn.so.9, tests/plugins/fake_cudnn.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace foretrain {

struct FakeCudnn {
  std::size_t version = 91900;
  std::int64_t calls = 0;     // calls that can fail
  std::int64_t fail_at = -1;  // the call that fails, counted from 0
  bool has_engine = true;     // for every graph
  int refused_configs = 0;    // the first of a graph's two configs for which no plan can be made
  std::int64_t max_bytes = std::int64_t{1} << 40;  // maximum workspace of a plan
  std::int64_t live = 0;                           // descriptors and handles
  int plans = 0;                                   // plans made
  int runs = 0;
  std::vector<std::vector<std::int64_t>> ran;  // by run: the sizes of tensor 1, the queries
  std::string wrong;                           // the first violation of the rules by a caller

  void Reset() { *this = {}; }
};

}  // namespace foretrain
