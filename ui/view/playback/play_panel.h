// The panel of a step that is stepped through: its controls, the queues of a rank, and the live
// tensors at the moment by category.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "ui/view/screens/screen.h"
#include "ui/view_model/playback/moment.h"

namespace foretrain::ui {

class PlayPanel {
 public:
  // Draws into `box`; controls change `play`.
  //
  //   model_number  grows whenever the model is another one
  //   lane          lane of the rank that is shown, unless `play` names one
  void Draw(const ScreenFrame& frame, const Box& box, const CompareModel& model,
            std::uint64_t model_number, std::size_t lane, Playback& play);

  // The panel's content as text: queues, then memory. Arguments as in Draw.
  std::string TextOf(const CompareModel& model, std::uint64_t model_number, std::size_t lane,
                     const Playback& play, bool csv);

  static constexpr float kHeight = 210.0F;  // that it needs, in pixels at scale 1

 private:
  // Reads the rank's queues, unless that was done for this model. Returns the rank.
  int Refresh(const CompareModel& model, std::uint64_t model_number, std::size_t lane,
              const Playback& play);
  float DrawControls(const ScreenFrame& frame, const Box& box, const CompareModel& model, int rank,
                     Playback& play) const;
  void DrawQueues(const ScreenFrame& frame, const Box& box, const CompareModel& model,
                  const Playback& play) const;
  void DrawMemoryOf(const ScreenFrame& frame, const Box& box, const CompareModel& model,
                    const Playback& play) const;

  std::optional<std::tuple<std::uint64_t, Side, int>> moments_of_;
  RankMoments moments_;
};

}  // namespace foretrain::ui
