// What tests tell their cuBLASLt, tests/plugins/fake_cublaslt.cc, and what it tells them.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace foretrain {

struct FakeCublasLt {
  int algorithms = 4;                 // that there are for a product
  std::set<int> refused;              // epilogues that it has no algorithm for
  std::set<std::uint64_t> not_taken;  // algorithms that its check refuses
  std::int64_t workspace_bytes = 0;   // that an algorithm needs
  std::uint64_t version = 130100;
  std::vector<std::uint64_t> ran;                // the algorithm of each product
  std::vector<int> epilogues;                    // and its epilogue
  std::vector<int> compute;                      // and cublasComputeType_t
  std::vector<std::pair<int, int>> scale_modes;  // and cublasLtMatmulMatrixScale_t of a and of b
};
FakeCublasLt& FakeLibrary();

}  // namespace foretrain
