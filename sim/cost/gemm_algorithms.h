// How a device's library computes products of given sizes: what `calibrate` found fastest, and runs
// then use, so that their bits depend on a profile and not on timing. Leaves out how they are timed
// and used (runtime/gemm_algorithms.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "sim/program/op.h"

namespace foretrain {

// What becomes of a product: nothing more, an activation, or times an activation's slope.
enum class GemmEpilogue : std::uint8_t { kNone, kActivate, kSlope };

// Of one product c[rows, cols] over `inner`.
struct GemmAlgorithm {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t inner = 0;
  bool accumulate = false;
  bool trans_a = false;
  bool trans_b = false;
  bool has_bias = false;
  bool has_aux = false;       // with kActivate: what was before it is kept
  bool has_row_sums = false;  // sums of op(a) beside the product
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  NumberFormat format = NumberFormat::kFp32;    // what it computes in
  NumberFormat operands = NumberFormat::kFp32;  // as they are stored
  NumberFormat bias = NumberFormat::kFp32;
  NumberFormat result = NumberFormat::kFp32;
  NumberFormat row_sums = NumberFormat::kFp32;
  std::array<std::uint64_t, 8> words{};  // the library's, opaque
  double seconds = 0;                    // median
  double library_seconds = 0;            // of what the library's heuristic chooses

  bool operator==(const GemmAlgorithm&) const = default;
};

struct GemmAlgorithms {
  std::string library;  // and its version, "cublasLt-130100"; empty: none were measured
  std::vector<GemmAlgorithm> of;

  bool operator==(const GemmAlgorithms&) const = default;
};

// As the object that is begun: "library", "of". Words are 128 hexadecimal digits.
void WriteGemmAlgorithms(const GemmAlgorithms& algorithms, JsonWriter& json);

// Errors: kInvalidArgument, a field that is missing, unknown or out of range.
Result<void> ReadGemmAlgorithms(JsonFields fields, GemmAlgorithms& algorithms);

}  // namespace foretrain
