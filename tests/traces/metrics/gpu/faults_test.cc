#include "traces/metrics/gpu/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Counter Xid(int rank, std::int64_t time_ns, double number) {
  return {"gpu_xid", rank, -1, time_ns, number};
}
Counter Uncorrected(int rank, std::int64_t time_ns, double count) {
  return {"gpu_ecc_uncorrected", rank, -1, time_ns, count};
}

TEST(GpuFaults, CountAlikeErrorsOfARank) {
  EXPECT_THAT(GpuFaultsOf(std::vector<Counter>{Xid(2, 30, 13), Xid(2, 40, 13), Xid(0, 50, 79),
                                               Xid(2, 60, 94)}),
              ElementsAre(GpuFault{GpuFaultKind::kXid, 0, 79, 1, 50},
                          GpuFault{GpuFaultKind::kXid, 2, 13, 2, 30},
                          GpuFault{GpuFaultKind::kXid, 2, 94, 1, 60}));
}

// The GPU had 5 errors before the run. 7 - 5 = 2 came in it, then the driver was loaded again and
// counted 1 more.
TEST(GpuFaults, CountMemoryErrorsOfTheRunAlone) {
  EXPECT_THAT(GpuFaultsOf(std::vector<Counter>{Uncorrected(1, 0, 5), Uncorrected(1, 10, 5)}),
              IsEmpty());
  EXPECT_THAT(GpuFaultsOf(std::vector<Counter>{Uncorrected(1, 0, 5),
                                               Uncorrected(1, 10, 7),
                                               Uncorrected(1, 20, 0),
                                               Uncorrected(1, 30, 1),
                                               {"gpu_ecc_corrected", 1, -1, 0, 3.0},
                                               {"gpu_ecc_corrected", 1, -1, 30, 4.0}}),
              ElementsAre(GpuFault{GpuFaultKind::kUncorrectedEcc, 1, 0, 3, 10},
                          GpuFault{GpuFaultKind::kCorrectedEcc, 1, 0, 1, 30}));
}

TEST(GpuFaults, AreTakenOnceAsReadingsCome) {
  GpuFaultWatch watch;
  EXPECT_THAT(watch.Take(std::vector<Counter>{Uncorrected(0, 0, 2)}), IsEmpty());
  EXPECT_THAT(watch.Take(std::vector<Counter>{Uncorrected(0, 5, 3), Xid(0, 5, 48)}),
              ElementsAre(GpuFault{GpuFaultKind::kXid, 0, 48, 1, 5},
                          GpuFault{GpuFaultKind::kUncorrectedEcc, 0, 0, 1, 5}));
  EXPECT_THAT(watch.Take(std::vector<Counter>{Uncorrected(0, 9, 3)}), IsEmpty());
}

TEST(GpuFaults, SayRankGpuMeaningAndRemedyInOneSentence) {
  EXPECT_EQ(Describe({GpuFaultKind::kXid, 3, 79, 1, 0}, "0000:1B:00.0"),
            "rank 3's GPU 0000:1B:00.0 reported XID 79: it has fallen off the PCIe bus; restart "
            "the machine, and contact its vendor if this happens again");
  EXPECT_THAT(Describe({GpuFaultKind::kXid, 0, 13, 4, 0}),
              HasSubstr("GPU reported XID 13 4 times:"));
  EXPECT_EQ(Describe({GpuFaultKind::kUncorrectedEcc, 1, 0, 2, 0}),
            "rank 1's GPU reported 2 memory errors that ECC could not correct; reset the GPU or "
            "restart the machine");
  EXPECT_THAT(Describe({GpuFaultKind::kXid, 0, 158, 1, 0}),
              AllOf(HasSubstr("XID 158"), HasSubstr("xid-errors")));
}

// The numbers that training meets most have a text of their own.
TEST(GpuFaults, KnowTheCommonXids) {
  const std::string_view other = TextOf({GpuFaultKind::kXid, 0, 158, 1, 0}).meaning;
  for (const int xid : {13, 31, 43, 45, 48, 63, 64, 74, 79, 92, 94, 95, 119}) {
    EXPECT_NE(TextOf({GpuFaultKind::kXid, 0, xid, 1, 0}).meaning, other) << xid;
  }
}

TEST(GpuFaults, LeaveOutValuesThatCannotBe) {
  EXPECT_THAT(
      GpuFaultsOf(std::vector<Counter>{
          Xid(0, 0, -1), Xid(0, 1, 1e18), Xid(0, 2, std::nan("")), {"loss", 0, 0, 0, 79.0}}),
      IsEmpty());
}

}  // namespace
}  // namespace foretrain
