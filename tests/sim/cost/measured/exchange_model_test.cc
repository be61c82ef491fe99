#include "sim/cost/measured/exchange_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrain {
namespace {

constexpr KernelMachine kMachine = {.link_bytes_per_s = 70e9, .linked = true};

// Two of 8 experts on 8 devices are two devices; all 8 are all. One of 16 experts on two nodes is
// on the other node half of the time.
TEST(ExchangeModel, CountsDistinctDevicesAndNodes) {
  EXPECT_NEAR(CopiesOf({.topk = 2, .experts = 8}).devices, 2, 1e-12);
  EXPECT_NEAR(CopiesOf({.topk = 8, .experts = 8}).devices, 8, 1e-12);
  const TokenCopies two = CopiesOf({.nodes = 2, .topk = 1, .experts = 16});
  EXPECT_NEAR(two.devices, 1, 1e-12);
  EXPECT_NEAR(two.far_nodes, 0.5, 1e-12);
}

// Two of 256 experts on 8 devices are on one device with probability 31/255: 2 - 31/255 devices.
TEST(ExchangeModel, ExpertsOfOneDeviceShareACopy) {
  EXPECT_NEAR(CopiesOf({.topk = 2, .experts = 256}).devices, 2 - 31.0 / 255, 1e-12);
}

// With one expert a node, four experts are on four nodes, of which 7/8 are far. With 8 nodes and
// 256 experts only four nodes' 128 experts are candidates: no token visits more than four.
TEST(ExchangeModel, ATokenUsesAtMostFourNodes) {
  const TokenCopies four = CopiesOf({.nodes = 8, .topk = 4, .experts = 8});
  EXPECT_NEAR(four.far_nodes, 3.5, 1e-12);
  EXPECT_NEAR(four.devices, 4, 1e-12);
  EXPECT_LT(CopiesOf({.nodes = 8, .topk = 64, .experts = 256}).far_nodes, 3.5 + 1e-12);
}

constexpr ExchangeTerms kTerms = {.launch_s = 10e-6,
                                  .token_s = 0,
                                  .unit_bytes_per_s = 10e9,
                                  .own_copies = 0,
                                  .far_copies = 0,
                                  .link_share = 0.5,
                                  .network_share = 0.5,
                                  .far_share = 0.25,
                                  .overlap = 0};
constexpr ExchangeShape kShape = {
    .hidden = 1000, .tokens = 1000, .topk = 2, .experts = 8, .multiprocessors = 10};

// Combine, 2000 bytes a token, to two devices: 4 MB over 10 multiprocessors of 10 GB/s take 40 us,
// the 7/8 that leave the device 100 us over 35 GB/s. Dispatch has 1000 + 4 * 1000 / 128 bytes.
TEST(ExchangeModel, AddsWorkAndLinksWithoutOverlap) {
  EXPECT_NEAR(ExchangeModelSeconds(kTerms, kMachine, ExchangePart::kCombine, kShape), 150e-6,
              1e-12);
  EXPECT_NEAR(ExchangeModelSeconds(kTerms, kMachine, ExchangePart::kDispatch, kShape),
              10e-6 + 140e-6 * 1031.25 / 2000, 1e-12);
}

TEST(ExchangeModel, OverlapTendsToTheLongest) {
  ExchangeTerms terms = kTerms;
  terms.overlap = 1;
  EXPECT_NEAR(ExchangeModelSeconds(terms, kMachine, ExchangePart::kCombine, kShape),
              10e-6 + std::hypot(40e-6, 100e-6), 1e-12);
  terms.overlap = 100;
  EXPECT_NEAR(ExchangeModelSeconds(terms, kMachine, ExchangePart::kCombine, kShape), 110e-6, 1e-9);
}

// Half of the tokens leave: 1 MB of combine. 5 GB/s of a stated network take 200 us, 25 GB/s of the
// measured one 40 us. Of 8 nodes 7/8 of the tokens leave, at a quarter of that rate: 280 us.
TEST(ExchangeModel, TheNetworkCarriesCopiesToFarNodes) {
  ExchangeTerms terms = kTerms;
  terms.unit_bytes_per_s = 1e18;
  ExchangeShape shape = {.nodes = 2,
                         .hidden = 1000,
                         .tokens = 1000,
                         .topk = 1,
                         .experts = 8,
                         .node_devices = 1,
                         .network_bytes_per_s = 10e9};
  const auto seconds = [&] {
    return ExchangeModelSeconds(terms, kMachine, ExchangePart::kCombine, shape);
  };
  EXPECT_NEAR(seconds(), 210e-6, 1e-9);
  shape.network_bytes_per_s = 0;
  EXPECT_NEAR(seconds(), 50e-6, 1e-9);
  shape.nodes = 8;
  EXPECT_NEAR(seconds(), 290e-6, 1e-9);
}

}  // namespace
}  // namespace foretrain
