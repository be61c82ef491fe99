// Controls and records of the tests' cuBLASLt, tests/plugins/fake_cublaslt.cc.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace foretrain {

struct FakeCublasLt {
  int algorithms = 4;                 // number of algorithms for a product
  std::set<int> refused;              // epilogues without an algorithm
  std::set<std::uint64_t> not_taken;  // algorithms that its check refuses
  std::int64_t workspace_bytes = 0;   // needed by each algorithm
  std::uint64_t version = 130100;
  std::vector<std::uint64_t> ran;                // algorithm of each product
  std::vector<int> epilogues;                    // epilogue of each product
  std::vector<int> compute;                      // cublasComputeType_t of each product
  std::vector<std::pair<int, int>> scale_modes;  // cublasLtMatmulMatrixScale_t of a and b
};
FakeCublasLt& FakeLibrary();

}  // namespace foretrain
