// Which of its algorithms a device's library computes products with: times them, and makes a queue
// use those that a profile keeps. Leaves out how they are written down
// (sim/cost/gemm_algorithms.h).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "sim/cost/gemm_algorithms.h"
#include "sim/program/op.h"

namespace foretrain {

// The product of an op that calls gemm. Its pointers say only which parts it has: a bias where
// `has_bias`, what is kept before an activation, sums of rows.
FtGemm ProductOf(const Op& op, bool has_bias);

// The algorithm that is kept for products like `g`; null: none.
const GemmAlgorithm* FindAlgorithm(const GemmAlgorithms& algorithms, const FtGemm& g);

// Why the device does not use them, as a sentence: it has no such library, or another version.
// Empty where it does, or where there are none.
std::string WhyNotUsed(const FtDeviceApi& api, const GemmAlgorithms& algorithms);

// Why products of codes with scales of blocks are all the device's own kernels', as a sentence: its
// library has none yet, or none for GPUs of compute capability `capability` / 10. Empty where the
// library is asked for them, and of a device that has no library.
std::string WhyNoLibraryBlocks(const FtDeviceApi& api, int capability);

// From here on `queue` computes products like those of `gemms` by the algorithms that are kept for
// them; one that the library refuses leaves its own choice. Does nothing where WhyNotUsed says why.
// Errors: the device's.
Result<void> UseGemmAlgorithms(const FtDeviceApi& api, FtQueue* queue,
                               const GemmAlgorithms& algorithms, std::span<const FtGemm> gemms);

struct TuneOptions {
  int device = 0;
  int candidates = 8;          // of the library for each product, its own choice first
  int rounds = 5;              // in which candidates take turns; a candidate's time is the median
  int launches = 4;            // of a candidate's turn
  std::function<bool()> stop;  // asked before each product; may be null
};

// The fastest algorithm for each of `products`, which differ; the library's own choice unless
// another is 2 % faster, so that noise moves nothing. Of a product with parts that the library does
// not take, that for the product alone. By events of the device, of operands whose
// numbers are all alike. None from a device that has no such library.
//
// Errors: the device's; kResourceExhausted, no memory for the operands; kAborted when stopped.
Result<GemmAlgorithms> TuneGemms(const FtDeviceApi& api, std::span<const FtGemm> products,
                                 const TuneOptions& options);

}  // namespace foretrain
