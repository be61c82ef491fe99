// Published step times and activations of pipeline schedules without transfers, F = 1 for a rank's
// share. Slots, simulator and executor must all reproduce them. Peaks count one micro-batch through
// a rank's whole share, from the first rank to the last.
#pragma once

#include <string>
#include <vector>

#include "sim/program/schedules/schedule.h"

namespace foretrain {

struct GoldenSchedule {
  ScheduleKind schedule;
  PipelineShape shape;
  double input_s, weight_s;
  double makespan_s;
  double early_s;  // makespan if whole backwards send after their input half; 0: not given
  std::vector<double> peaks;
};

inline std::string NameOf(const GoldenSchedule& golden) {
  return std::string(Name(golden.schedule)) + " p " + std::to_string(golden.shape.p) + " m " +
         std::to_string(golden.shape.m) + " v " + std::to_string(golden.shape.vpp) + " I " +
         std::to_string(golden.input_s);
}

inline const std::vector<GoldenSchedule>& GoldenSchedules() {
  using Kind = ScheduleKind;
  static const std::vector<GoldenSchedule> goldens = {
      {Kind::kGpipe, {4, 8}, 1, 1, 33, 30, {8, 8, 8, 8}},
      {Kind::k1f1b, {4, 8}, 1, 1, 33, 30, {4, 3, 2, 1}},
      {Kind::kInterleaved, {4, 8, 2}, 1, 1, 28.5, 27, {5.5, 4.5, 3.5, 2.5}},
      {Kind::kInterleaved, {4, 8, 4}, 1, 1, 26.25, 25.5, {4.75, 4.25, 3.75, 3.25}},
      {Kind::kZbH1, {4, 8}, 1, 1, 27, 27, {4, 4, 4, 4}},
      {Kind::kZbH2, {4, 8}, 1, 1, 27, 27, {7, 7, 7, 7}},
      {Kind::kZbV, {4, 8}, 1, 1, 25.5, 25.5, {4, 4, 4, 4}},
      {Kind::kDualPipeV, {4, 8}, 1, 1, 27, 0, {4.5, 4.5, 4.5, 4.5}},
      {Kind::kDualPipe, {4, 8}, 1, 1, 26, 0, {5, 5, 5, 5}},
      {Kind::kGpipe, {4, 8}, 1.2, 0.8, 33, 0, {8, 8, 8, 8}},
      {Kind::k1f1b, {4, 8}, 1.2, 0.8, 33, 0, {4, 3, 2, 1}},
      {Kind::kInterleaved, {4, 8, 2}, 1.2, 0.8, 28.5, 0, {5.5, 4.5, 3.5, 2.5}},
      {Kind::kInterleaved, {4, 8, 4}, 1.2, 0.8, 26.25, 0, {4.75, 4.25, 3.75, 3.25}},
      {Kind::kZbH1, {4, 8}, 1.2, 0.8, 28.2, 0, {4, 4, 4, 4}},
      {Kind::kZbH2, {4, 8}, 1.2, 0.8, 27, 0, {7, 7, 7, 7}},
      {Kind::kZbV, {4, 8}, 1.2, 0.8, 25.8, 0, {4, 4, 4, 4}},
      {Kind::kDualPipeV, {4, 8}, 1.2, 0.8, 27.6, 0, {4.5, 4.5, 4.5, 4.5}},
      {Kind::kDualPipe, {4, 8}, 1.2, 0.8, 26.4, 0, {5, 5, 5, 5}},
      {Kind::kGpipe, {8, 32}, 1, 1, 117, 0, {32, 32, 32, 32, 32, 32, 32, 32}},
      {Kind::k1f1b, {8, 32}, 1, 1, 117, 0, {8, 7, 6, 5, 4, 3, 2, 1}},
      {Kind::kInterleaved, {8, 32, 2}, 1, 1, 106.5, 0, {11.5, 10.5, 9.5, 8.5, 7.5, 6.5, 5.5, 4.5}},
      {Kind::kInterleaved,
       {8, 32, 4},
       1,
       1,
       101.25,
       0,
       {9.75, 9.25, 8.75, 8.25, 7.75, 7.25, 6.75, 6.25}},
      {Kind::kZbH1, {8, 32}, 1, 1, 103, 0, {8, 8, 8, 8, 8, 8, 8, 8}},
      {Kind::kZbH2, {8, 32}, 1, 1, 103, 0, {15, 15, 15, 15, 15, 15, 15, 15}},
      {Kind::kZbV, {8, 32}, 1, 1, 99.5, 0, {8, 8, 8, 8, 8, 8, 8, 8}},
      {Kind::kDualPipeV, {8, 32}, 1, 1, 103, 0, {8.5, 8.5, 8.5, 8.5, 8.5, 8.5, 8.5, 8.5}},
      {Kind::kDualPipe, {8, 32}, 1, 1, 102, 0, {9, 9, 9, 9, 9, 9, 9, 9}},
      {Kind::kZbH1, {8, 32}, 1.2, 0.8, 105.8, 0, {8, 8, 8, 8, 8, 8, 8, 8}},
      {Kind::kZbH2, {8, 32}, 1.2, 0.8, 103, 0, {15, 15, 15, 15, 15, 15, 15, 15}},
      {Kind::kZbV, {8, 32}, 1.2, 0.8, 100.2, 0, {8, 8, 8, 8, 8, 8, 8, 8}},
      {Kind::kDualPipeV, {8, 32}, 1.2, 0.8, 104.6, 0, {8.5, 8.5, 8.5, 8.5, 8.5, 8.5, 8.5, 8.5}},
      {Kind::kDualPipe, {8, 32}, 1.2, 0.8, 103.2, 0, {9, 9, 9, 9, 9, 9, 9, 9}},
  };
  return goldens;
}

}  // namespace foretrain
