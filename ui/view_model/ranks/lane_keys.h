// Mouse and keys of the lanes' order and of the overview. Leaves out the rest of the timeline's
// input (ui/view_model/timeline/interaction.h).
#pragma once

#include "ui/view_model/timeline/interaction.h"

namespace foretrain::ui {

// Groups ranks or shows them all (R), shows the slowest first or all by rank (L), pins the lane
// under the mouse or the selected one (V). Returns whether the key is one of them.
bool OnLaneKey(const CompareModel& model, char32_t key, ViewState& state);

// A press on a pin, a group or a name in the gutter, or in the overview. Returns whether there was
// one; a name and the overview start a drag.
bool OnLanePress(const CompareModel& model, const Layout& layout, const InputFrame& input,
                 ViewState& state);

// Goes on with such a drag. Returns whether there is one.
bool OnLaneMove(const CompareModel& model, const Layout& layout, const InputFrame& input,
                ViewState& state);

// Puts a lane whose name was dragged into its new place.
void OnLaneDrop(const CompareModel& model, const Layout& layout, const InputFrame& input,
                ViewState& state);

// Scrolls to `lane` if it is not completely visible; then it is centred. If another lane stands for
// it, state.reveal asks for its group to be expanded.
void ScrollToLane(const Layout& layout, std::size_t lane, ViewState& state);

// Expands the group of state.reveal, if there is one. Returns whether the list of lanes changes.
bool RevealLane(const LaneList& list, ViewState& state);

}  // namespace foretrain::ui
