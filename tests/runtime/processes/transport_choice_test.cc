// The choice between shared memory and sockets, by two ranks that are threads here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "runtime/processes/process_world.h"
#include "tests/runtime/ranks/free_port.h"
#include "tests/runtime/ucx/needs_ucx.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Opened = Result<std::shared_ptr<const Ucx>>;

// The choices of ranks that have opened UCX, or not.
std::array<TransportChoice, 2> Choose(const std::array<Opened, 2>& opened) {
  std::array<TransportChoice, 2> choices;
  std::array<std::unique_ptr<ProcessGroup>, 2> groups;  // end once both have chosen
  const int port = FreePort();
  const auto run = [&](std::size_t at) {
    const int rank = static_cast<int>(at);
    auto group = ProcessGroup::Join({rank, 2, rank, "127.0.0.1", port}, 30'000'000'000);
    ASSERT_TRUE(group.has_value()) << group.error().message;
    groups[at] = *std::move(group);
    auto choice = ChooseTransport(*groups[at], opened[at]);
    ASSERT_TRUE(choice.has_value()) << choice.error().message;
    choices[at] = *std::move(choice);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return choices;
}

struct ChosenTransport : NeedsUcx {};

TEST_F(ChosenTransport, IsSharedMemoryIfAllRanksHaveUcx) {
  const auto choices = Choose({ucx, ucx});
  EXPECT_TRUE(choices[0].ucx != nullptr && choices[1].ucx != nullptr);
  EXPECT_EQ(choices[0].text, "shared memory, UCX " + ucx->Version());
}

TEST_F(ChosenTransport, IsTcpIfOneRankHasNoUcx) {
  for (const std::size_t lacks : {0U, 1U}) {
    std::array<Opened, 2> opened = {ucx, ucx};
    opened[lacks] = Fail(ErrorCode::kUnsupported, "libucp.so.0: not\x1b here");
    const auto choices = Choose(opened);
    EXPECT_TRUE(choices[0].ucx == nullptr && choices[1].ucx == nullptr);
    EXPECT_THAT(choices[0].text,
                AllOf(HasSubstr("TCP, as shared memory needs UCX 1.13 or later"),
                      HasSubstr("rank " + std::to_string(lacks) + " has no UCX (libucp.so.0: not"),
                      testing::Not(HasSubstr("\x1b"))));
  }
}

// Another version serves as another namespace would: it makes the places of the ranks differ.
TEST_F(ChosenTransport, IsTcpIfVersionsDiffer) {
  struct Newer : Ucx {
    std::string Version() const override { return "1.99.0"; }
    Result<std::unique_ptr<UcxTransport>> Make(int, int) const override {
      return Fail(ErrorCode::kUnsupported, "not made");
    }
  };
  const auto choices = Choose({ucx, std::shared_ptr<const Ucx>(std::make_shared<Newer>())});
  EXPECT_TRUE(choices[0].ucx == nullptr && choices[1].ucx == nullptr);
  EXPECT_THAT(choices[0].text,
              AllOf(HasSubstr("rank 1 has UCX 1.99.0"), HasSubstr("rank 0 UCX " + ucx->Version())));
}

}  // namespace
}  // namespace foretrain
