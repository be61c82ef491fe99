// Compares exchanges with the published bandwidths of DeepEP on H800, whose links have 200 GB/s in
// one direction. H800 has no profile: the terms come from H100. docs/validation.md has the table.
#include <gtest/gtest.h>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/measured/hot_kernels.h"

namespace foretrain {
namespace {

// deepseek-ai/DeepEP 567632d README.md lines 19 to 22: 4096 tokens, hidden 7168, 8 of 256 experts,
// dispatch in fp8, combine in bf16, 24 multiprocessors (tests/test_internode.py), a 400 Gbit/s
// adapter a device.
ExchangeShape Shape(std::int64_t nodes) {
  return {.nodes = nodes,
          .hidden = 7168,
          .tokens = 4096,
          .topk = 8,
          .experts = 256,
          .multiprocessors = 24,
          .network_bytes_per_s = 50e9};
}

// GB/s as DeepEP counts them: a token's bytes once for each node it goes to, its own included, or
// within one node once for each device.
double Bandwidth(std::int64_t nodes, ExchangePart part) {
  const Catalogue catalogue = BuiltInCatalogue().value();
  const GpuEntry gpu = FindGpu(catalogue, "H800-80GB-SXM").value();
  const ExchangeShape shape = Shape(nodes);
  const TokenCopies copies = CopiesOf(shape);
  const auto count = static_cast<double>(nodes);
  const double units = nodes == 1 ? copies.devices : copies.far_nodes * count / (count - 1);
  const double element = part == ExchangePart::kDispatch ? 1 + 4.0 / 128 : 2;
  const double bytes = 4096 * 7168 * element * units;
  return bytes / HotKernelsOf(gpu.device)->ExchangeSeconds(part, shape).value() / 1e9;
}

void ExpectNear(std::int64_t nodes, double dispatch, double combine, double share) {
  EXPECT_NEAR(Bandwidth(nodes, ExchangePart::kDispatch), dispatch, share * dispatch) << nodes;
  EXPECT_NEAR(Bandwidth(nodes, ExchangePart::kCombine), combine, share * combine) << nodes;
}

TEST(PublishedExchange, OfH800WithinANode) { ExpectNear(1, 153, 158, 0.1); }
TEST(PublishedExchange, OfH800AmongNodes) {
  ExpectNear(2, 43, 43, 0.2);
  ExpectNear(4, 58, 57, 0.1);
  ExpectNear(8, 51, 50, 0.15);
}

}  // namespace
}  // namespace foretrain
