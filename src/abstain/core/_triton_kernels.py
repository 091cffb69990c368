# mypy: ignore-errors
"""Triton sources: sort keys of confidences, the update of bins, and the loss of a batch.

Arguments of kernels are pointers to the first element of an array, and numbers. Without Triton the module can still be
imported; its functions are then plain Python and are never called.
"""

from __future__ import annotations

try:
    import triton
    import triton.language as tl

    AVAILABLE = True
    jit = triton.jit
except ImportError:
    AVAILABLE = False
    tl = None

    def jit(function=None, **options):
        """Without Triton nothing is compiled."""
        return jit if function is None else function


# Sort keys ------------------------------------------------------------------------------------------------------------


@jit
def write_keys(bits, is_error, keys, error_keys, error_count, n, TILE: tl.constexpr):
    """Store an integer key for each of n confidences, and the keys of the errors once more, in no fixed order.

    Keys ascend as confidences descend: the complement of the bits of a positive float, the bits without the sign of a
    negative one, and -1 for 0 and -0. `bits` are the bits of the confidences as signed integers; `keys` and
    `error_keys` have their type, and room for n. `is_error` holds 0 or 1 (uint8). A program handles TILE samples. It
    reserves places for the keys of its errors by adding their number to `error_count` (int64), which is 0 at the start.
    The atomic addition returns the count before it: the first of these places.
    """
    i = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    inside = i < n
    bit = tl.load(bits + i, mask=inside, other=0)
    # the largest integer of this type: all bits but that of the sign
    largest = ~((bit * 0 + 1) << (bits.dtype.element_ty.primitive_bitwidth - 1))
    without_sign = bit & largest
    key = tl.where(bit >= 0, ~bit, tl.where(without_sign == 0, -1, without_sign)).to(bit.dtype)
    tl.store(keys + i, key, mask=inside)
    error = tl.load(is_error + i, mask=inside, other=0).to(tl.int32)
    first_place = tl.atomic_add(error_count, tl.sum(error, axis=0).to(tl.int64), sem="relaxed")
    place = first_place + tl.cumsum(error, axis=0) - 1  # the k-th error of the tile takes the k-th place
    tl.store(error_keys + place, key, mask=error != 0)


# Bins -----------------------------------------------------------------------------------------------------------------


@jit
def find_bin(x, first_bin, bin_count, mask):
    """Compute the bin number of each float64, exactly as `core.confidence_bins.BinMap.index` does.

    `first_bin` (int64) and `bin_count` (float64, at least 1) point to the tables of that map: the first bin and the
    number of bins of each octave, 2048 octaves for each of four regions. These are 0 negative or zero, 1 up to 1/2,
    2 up to 1, 3 above 1. An octave is a power of two of the distance of `x` from 1 in region 2, from 0 in the others.
    `mask` is false for elements past the end of the data, whose results are not used.
    """
    x = x + 0.0  # turns -0 into +0
    is_low = (x > 0) & (x <= 0.5)
    is_top = (x > 0.5) & (x <= 1)
    region = tl.where(x > 1, 3, tl.where(is_top, 2, tl.where(is_low, 1, 0)))
    distance = tl.where(is_top, 1 - x, tl.abs(x))
    bits = distance.to(tl.int64, bitcast=True)
    # an octave is the 11 bits of the exponent, above 52 bits of the fraction
    code = region * 2048 + (bits >> 52).to(tl.int32)
    fraction = (bits & 0xFFFFFFFFFFFFF).to(tl.float64) * 2.220446049250313e-16  # times 2^-52: from 0 to 1
    count = tl.load(bin_count + code, mask=mask, other=1.0)
    place = tl.minimum(tl.floor(fraction * count), count - 1)
    is_reversed = (region == 0) | (region == 2)  # there x increases as the distance decreases
    place_in_octave = tl.where(is_reversed, count - 1 - place, place).to(tl.int32)
    return tl.load(first_bin + code, mask=mask, other=0) + place_in_octave


@jit
def ordered_bits(x):
    """int64 numbers that have the order of the float64 numbers `x`."""
    bits = (x + 0.0).to(tl.int64, bitcast=True)
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


@jit
def add_to_bins(
    confidence,
    binned_value,
    loss,
    first_bin,
    bin_count,
    count,
    loss_sum,
    low_bits,
    high_bits,
    n,
    BLOCK: tl.constexpr,
):
    """Add one block of BLOCK of the n samples to bins in global memory, by atomics.

    Samples have a `confidence`, a `binned_value` and a `loss`, of any number type. `binned_value` decides the bin, by
    the tables `first_bin` and `bin_count` of a `BinMap`: it is the confidence itself, or, where that is a rank key
    without a fixed range, the probability of the same order. Each bin has a `count` (int64) and a `loss_sum` (float64)
    of its samples, and their smallest and largest confidence, `low_bits` and `high_bits`, as integers (int64) that have
    the order of the floats (those of inf and -inf in an empty bin), which are only written where they change. An
    extreme may have been moved by another program since it was read; the atomics compare again.
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    confidence_bits = ordered_bits(tl.load(confidence + i, mask=mask, other=0.0).to(tl.float64))
    value = tl.load(binned_value + i, mask=mask, other=0.0).to(tl.float64)
    bin_number = find_bin(value, first_bin, bin_count, mask)
    ones = tl.full((BLOCK,), 1, tl.int64)
    tl.atomic_add(count + bin_number, ones, mask=mask, sem="relaxed")
    sample_loss = tl.load(loss + i, mask=mask, other=0).to(tl.float64)
    tl.atomic_add(loss_sum + bin_number, sample_loss, mask=mask & (sample_loss != 0), sem="relaxed")
    low = tl.load(low_bits + bin_number, mask=mask, other=0)
    high = tl.load(high_bits + bin_number, mask=mask, other=0)
    tl.atomic_min(low_bits + bin_number, confidence_bits, mask=mask & (confidence_bits < low), sem="relaxed")
    tl.atomic_max(
        high_bits + bin_number, confidence_bits, mask=mask & (confidence_bits > high), sem="relaxed"
    )


# Bins in shared memory, for 0/1 losses and float32 confidences --------------------------------------------------------
#
# Shared memory is addressed by hand, in bytes. Bin b has two counts, of right and of wrong samples, at base + 8 b, and
# its smallest and largest key at base + 8 (SIZE + 1) + 8 b; the extra bin SIZE takes what lies past the end of the
# samples. The last arguments of `tl.inline_asm_elementwise` are the type of the result, whether it is pure, and how
# many elements it takes at a time.


@jit
def find_bin_of_float32(x, packed_table, mask):
    """Compute the bin number of each float32, as `find_bin` does for the same float64, in 32-bit arithmetic.

    The regions are 0 negative or zero, 1 up to 1/2, 2 above 1/2 and up to 1, 3 above 1. Bins divide the distance of `x`
    from 1 in region 2, where resolution is needed close to 1, and its distance from 0 elsewhere. An octave is a power
    of two of that distance. `1 - x` and the product of whole numbers below are exact. `packed_table` holds 512 * first
    bin + number of bins (at most 511) for each of 2048 octaves in four regions. Octave 0 holds the distance 0 alone.
    NaN falls into some bin of region 0, whose extremes then show it. `mask` is false for elements past the end of the
    data, whose results are not used.
    """
    is_top = (x > 0.5) & (x <= 1)
    region = tl.where(x > 1, 3, tl.where(is_top, 2, tl.where(x > 0, 1, 0)))
    bits = tl.where(is_top, 1 - x, tl.abs(x)).to(tl.int32, bitcast=True)
    # The exponent stands above 23 bits of the fraction; its bias is 896 less than that of a float64. A subnormal
    # float32 gets octave 896, though the same float64 has a smaller exponent: octaves 1 to 962 all share one bin.
    octave = tl.where(bits == 0, 0, (bits >> 23) + 896)
    entry = tl.load(packed_table + region * 2048 + octave, mask=mask, other=1)  # 1: first bin 0, one bin
    count = entry & 511
    # fraction times number of bins, a whole number of units of 2^-23; 23 and 9 bits make at most 32
    place = (((bits & 0x7FFFFF) * count).to(tl.uint32) >> 23).to(tl.int32)
    is_reversed = (region == 0) | (region == 2)  # there x increases as the distance decreases
    return (entry >> 9) + tl.where(is_reversed, count - 1 - place, place)


@jit
def reserve_shared_memory(THREADS: tl.constexpr):
    """Reserve 46 KB of shared memory, and return its address. The other 2 of 48 KB are for Triton.

    Inline assembly returns one number for each element of its argument, so that an argument with one element for each
    of the THREADS threads is needed; the largest of the equal addresses is returned.
    """
    lane = tl.arange(0, THREADS)
    reserve: tl.constexpr = "{ .shared .align 16 .b8 abstain_bins[47104]; mov.u32 $0, abstain_bins; }"
    return tl.max(tl.inline_asm_elementwise(reserve, "=r,r", [lane], tl.int32, False, 1), axis=0)


@jit
def shared_store(address, value):
    """Store one 32-bit word per element in shared memory; elements with the same address must have the same value."""
    store: tl.constexpr = "{ st.shared.u32 [$1], $2; mov.u32 $0, 0; }"
    tl.inline_asm_elementwise(store, "=r,r,r", [address, value], tl.int32, False, 1)


@jit
def shared_load(address):
    """Load one 32-bit word per element from shared memory."""
    return tl.inline_asm_elementwise("ld.shared.u32 $0, [$1];", "=r,r", [address], tl.int32, False, 1)


@jit
def add_to_shared_bin(count_address, extremes_address, key):
    """Add 1 to a count in shared memory, and lower the smallest or raise the largest key if `key` is beyond it.

    All are 32-bit words. `extremes_address` is that of the smallest key, and the largest is 4 bytes after it. Both are
    read first, because they rarely change. The count and the keys are written by atomics, so that threads may share an
    address. In the assembly, $1 to $3 are the arguments, and $0 a result that nobody reads.
    """
    tl.inline_asm_elementwise(
        """
        {
        .reg .s32 smallest, largest;
        .reg .pred lower, higher;
        red.shared.add.u32 [$1], 1;
        ld.shared.v2.s32 {smallest, largest}, [$2];
        setp.lt.s32 lower, $3, smallest;
        setp.gt.s32 higher, $3, largest;
        @lower red.shared.min.s32 [$2], $3;
        @higher red.shared.max.s32 [$2+4], $3;
        mov.u32 $0, 0;
        }
        """,
        "=r,r,r,r",  # one result and three arguments, in 32-bit registers
        [count_address, extremes_address, key],
        tl.int32,  # type of the result
        False,  # not pure: it changes memory
        1,  # one element at a time
    )


@jit
def float64_of_key(key):
    """The float32 whose ordered 32-bit integer is `key`, as float64."""
    bits = key ^ ((key >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True).to(tl.float64)


@jit
def add_to_shared_bins(
    confidence,
    loss,
    packed_table,
    count,
    error_count,
    low_bits,
    high_bits,
    n,
    SIZE: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Add n samples (float32 confidences, 0/1 losses) to SIZE bins in global memory.

    Each program of 8 warps fills SIZE bins in shared memory, from blocks of samples that are a grid apart, and adds
    them to the global ones at the end: `count` and `error_count` (int64), and the smallest and largest confidence,
    `low_bits` and `high_bits`, as `ordered_bits` of float64. `packed_table` is that of `find_bin_of_float32`. SLOTS is
    a power of two above SIZE, since Triton needs one; the slots beyond SIZE share the extra bin SIZE, which is not
    added. SIZE + 1 bins of 16 bytes must fit into the 47104 bytes of `reserve_shared_memory`. In shared memory, first
    come 8 bytes per bin for its counts of right and of wrong samples, then 8 per bin for its smallest and largest key.
    """
    THREADS: tl.constexpr = 256
    BLOCK: tl.constexpr = THREADS * 8
    EXTREMES: tl.constexpr = 8 * (SIZE + 1)  # bytes from the counts of a bin to its extremes
    # The address of the first byte. What is reserved does not depend on THREADS: the inline assembly that returns the
    # address runs once per thread, and all threads of a program get the same one.
    base = reserve_shared_memory(THREADS)
    slot = tl.arange(0, SLOTS)
    slot_address = base + 8 * tl.minimum(slot, SIZE)
    # `slot * 0` is a 0 for each slot: no right and no wrong samples. The smallest key starts at the largest integer,
    # the largest key at an integer below the keys of all floats (that of -infinity is -0x7F800001). Slots that share
    # the extra bin store the same values there, so that the order of these stores does not matter.
    shared_store(slot_address, slot * 0)
    shared_store(slot_address + 4, slot * 0)
    shared_store(slot_address + EXTREMES, slot * 0 + 0x7FFFFFFF)
    shared_store(slot_address + EXTREMES + 4, slot * 0 - 0x7FFFFFFF)
    tl.debug_barrier()
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    start = tl.program_id(0).to(tl.int64) * BLOCK
    for begin in range(start, n, step):
        i = begin + tl.arange(0, BLOCK)
        mask = i < n
        x = tl.load(confidence + i, mask=mask, other=0.0) + 0.0  # turns -0 into +0
        error = tl.load(loss + i, mask=mask, other=0).to(tl.int32)
        bin_number = tl.where(mask, find_bin_of_float32(x, packed_table, mask), SIZE)
        bits = x.to(tl.int32, bitcast=True)
        key = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # an integer that has the order of the floats
        bin_address = base + 8 * bin_number
        count_address = bin_address + 4 * error  # of the right samples (error 0) or the wrong ones (1)
        # by atomics, so that samples of one block that fall into the same bin are all counted
        add_to_shared_bin(count_address, bin_address + EXTREMES, key)
    tl.debug_barrier()
    errors_in_slot = shared_load(slot_address + 4)
    samples_in_slot = shared_load(slot_address) + errors_in_slot
    is_filled = (slot < SIZE) & (samples_in_slot != 0)
    tl.atomic_add(count + slot, samples_in_slot.to(tl.int64), mask=is_filled, sem="relaxed")
    has_errors = is_filled & (errors_in_slot != 0)
    tl.atomic_add(error_count + slot, errors_in_slot.to(tl.int64), mask=has_errors, sem="relaxed")
    smallest = float64_of_key(shared_load(slot_address + EXTREMES))
    largest = float64_of_key(shared_load(slot_address + EXTREMES + 4))
    tl.atomic_min(low_bits + slot, ordered_bits(smallest), mask=is_filled, sem="relaxed")
    tl.atomic_max(high_bits + slot, ordered_bits(largest), mask=is_filled, sem="relaxed")


# The loss of a batch -------------------------------------------------------------------------------------------------
#
# At most three kernels forward and one backward, where plain torch launches fifty. All share one float64 array `work`:
# five columns of n numbers (confidence, log-sum-exp, loss, weight, share), then one partial sum per program of
# `compute_weights`, at most 128, and a counter. Arguments that change from batch to batch are not specialised: the
# short last batch of an epoch compiles nothing.


@jit(do_not_specialize=["n", "ignore_index"])
def read_rows(logits, target, work, n, classes, stride, ignore_index,
              SMOOTHING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
    """Store the first three columns of `work`: confidence (NaN where ignored), log-sum-exp and cross-entropy.

    A program handles ROWS of the n rows of `logits`, which are `stride` elements apart and have `classes` columns, side
    by side; COLUMNS is a power of two that is not smaller. `target` holds class numbers, and `ignore_index` marks
    samples to leave out. SMOOTHING is the label smoothing. The confidence is minus the odds against the winner, as in
    `torch.loss`. A target out of range has loss NaN: asking the host to raise an error would make it wait. `work` holds
    five columns of n float64 (the last two are for weights and shares, which other kernels compute), then 128 partial
    sums and a counter of the kernel `compute_weights`; sets the counter to 0.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    row_mask = row < n
    inside = row_mask[:, None] & (column[None, :] < classes)
    logit_pointers = logits + row.to(tl.int64)[:, None] * stride + column[None, :]
    z = tl.load(logit_pointers, mask=inside, other=float("-inf")).to(tl.float64)
    top = tl.max(z, axis=1)
    winner = tl.argmax(z, axis=1)
    is_not_winner = inside & (column[None, :] != winner[:, None])
    # without the winner, whose 1 would round away small odds
    odds_against = tl.sum(tl.where(is_not_winner, tl.exp(z - top[:, None]), 0.0), axis=1)
    label = tl.load(target + row, mask=row_mask, other=0)
    is_counted = label != ignore_index
    log1p_odds = tl.log(1.0 + odds_against)
    label_logit = tl.sum(tl.where(column[None, :] == label[:, None], z, 0.0), axis=1)
    loss = (top - label_logit) + log1p_odds  # log-sum-exp is top + log1p_odds
    if SMOOTHING != 0:
        mean_logit = tl.sum(tl.where(inside, z, 0.0), axis=1) / classes
        loss = (1 - SMOOTHING) * loss + SMOOTHING * ((top - mean_logit) + log1p_odds)
    loss = tl.where((label >= 0) & (label < classes), loss, float("nan"))
    # columns 0 to 2 of `work`: confidence, log-sum-exp, loss
    tl.store(work + row, tl.where(is_counted, -odds_against, float("nan")), mask=row_mask)
    tl.store(work + n + row, top + log1p_odds, mask=row_mask)
    tl.store(work + 2 * n + row, tl.where(is_counted, loss, 0.0), mask=row_mask)
    if tl.program_id(0) == 0:
        tl.store(work + 5 * n + 128, 0.0)  # the counter


@jit
def share_at(work, threshold, n, LOO: tl.constexpr, SIZE: tl.constexpr, STEP: tl.constexpr):
    """One over the number of samples accepted at each of SIZE thresholds; 0 if there are none.

    Accepted are the samples at least as confident as `threshold`. With LOO the number is one less, since the sample at
    the threshold is left out. Reads the n confidences in `work`, STEP at a time; NaN marks ignored samples, which are
    never accepted.
    """
    accepted = tl.zeros((SIZE,), tl.int32)
    for begin in range(0, n, STEP):  # the confidences are the first column of `work`
        i = begin + tl.arange(0, STEP)
        confidence = tl.load(work + i, mask=i < n, other=float("nan"))
        accepted += tl.sum((confidence[None, :] >= threshold[:, None]).to(tl.int32), axis=1)
    if LOO:
        accepted -= 1
    return tl.where(accepted > 0, 1.0 / tl.where(accepted > 0, accepted, 1).to(tl.float64), 0.0)


@jit(do_not_specialize=["n"])
def compute_shares(work, n, LOO: tl.constexpr, SAMPLES: tl.constexpr):
    """Store the fifth column of `work`: one over the number of samples accepted at the confidence of each sample.

    A program handles SAMPLES of the n samples. With LOO the number is one less. For batches that are too large for
    every program of `compute_weights` to compute all these shares.
    """
    j = tl.program_id(0) * SAMPLES + tl.arange(0, SAMPLES)
    confidence = tl.load(work + j, mask=j < n, other=float("nan"))
    # `share_at` reads 128 samples at a time; the fifth column of `work` starts at 4 n
    tl.store(work + 4 * n + j, share_at(work, confidence, n, LOO, SAMPLES, 128), mask=j < n)


@jit(do_not_specialize=["n"])
def compute_weights(work, out, n, ESTIMATOR: tl.constexpr, REDUCTION: tl.constexpr,
                    COMPUTES_SHARES: tl.constexpr, SAMPLES: tl.constexpr):  # fmt: skip
    """Store the weights of the samples in the fourth column of `work`, and in `out` the weighted losses or their sum.

    `work` holds five columns of n float64: confidence (NaN marks an ignored sample), log-sum-exp, loss, weight, share;
    then up to 128 partial sums, and a counter of finished programs, which is 0 at the start.

    A program handles SAMPLES samples. The weight of a sample is the sum over the thresholds (the samples' confidences)
    that accept it of a share: 1 / (number accepted there) for "harmonic", the same without the sample itself for "loo",
    1 / (number of samples) for "sele" and twice that for "2sele". For the REDUCTION "mean" it is divided by the number
    of samples, of which ignored ones are none. Shares are computed here if COMPUTES_SHARES, or read from `work`.

    The program that finishes last adds up the partial sums of all programs, in the order of the programs, so the result
    does not depend on which one that is. With the REDUCTION "none", `out` holds n weighted losses instead of the sum.
    """
    LOO: tl.constexpr = ESTIMATOR == "loo"
    SELE: tl.constexpr = ESTIMATOR == "sele" or ESTIMATOR == "2sele"
    THRESHOLDS: tl.constexpr = 128
    i = tl.program_id(0) * SAMPLES + tl.arange(0, SAMPLES)
    confidence = tl.load(work + i, mask=i < n, other=float("nan"))
    weight = tl.zeros((SAMPLES,), tl.float64)
    counted = tl.zeros((1,), tl.int32)
    for begin in range(0, n, THRESHOLDS):  # the confidences of all samples are the thresholds
        j = begin + tl.arange(0, THRESHOLDS)
        threshold = tl.load(work + j, mask=j < n, other=float("nan"))
        is_accepted = confidence[:, None] >= threshold[None, :]
        if SELE:
            weight += tl.sum(is_accepted.to(tl.float64), axis=1)
        else:
            if COMPUTES_SHARES:
                share = share_at(work, threshold, n, LOO, THRESHOLDS, 32)
            else:
                share = tl.load(work + 4 * n + j, mask=j < n, other=0.0)
            weight += tl.sum(tl.where(is_accepted, share[None, :], 0.0), axis=1)
        counted += tl.sum((threshold == threshold).to(tl.int32), axis=0)  # NaN marks ignored samples
    if LOO:  # subtract the share of the sample's own threshold
        if COMPUTES_SHARES:
            share_at_sample = share_at(work, confidence, n, LOO, SAMPLES, 32)
        else:
            share_at_sample = tl.load(work + 4 * n + i, mask=i < n, other=0.0)
        # NaN, which marks ignored samples, does not equal itself
        weight -= tl.where(confidence == confidence, share_at_sample, 0.0)
    sample_count = tl.maximum(counted, 1).to(tl.float64)
    if SELE:
        weight = weight / sample_count
    if REDUCTION == "mean":
        weight = weight / sample_count
    if ESTIMATOR == "2sele":
        weight = weight * 2
    tl.store(work + 3 * n + i, weight, mask=i < n)  # the fourth column
    weighted_loss = weight * tl.load(work + 2 * n + i, mask=i < n, other=0.0)  # the third column is the loss
    if REDUCTION == "none":
        tl.store(out + i, weighted_loss, mask=i < n)
    else:
        # behind the five columns: the partial sum of this program
        tl.store(work + 5 * n + tl.program_id(0), tl.sum(weighted_loss, axis=0))
        tl.debug_barrier()
        # the atomic releases the partial sum stored here, and acquires those of the other programs
        finished_before = tl.atomic_add(work + 5 * n + 128, 1.0)
        if finished_before == tl.num_programs(0) - 1:
            k = tl.arange(0, 128)
            sums = tl.load(work + 5 * n + k, mask=k < tl.num_programs(0), other=0.0, cache_modifier=".cg")
            tl.store(out, tl.sum(sums, axis=0))


@jit(do_not_specialize=["n", "upstream_stride", "ignore_index"])
def compute_gradients(logits, target, work, upstream, gradient, n, classes, stride, upstream_stride, ignore_index,
                      SMOOTHING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
    """Store the gradient of each row of logits: upstream times weight times (softmax - target); 0 where ignored.

    A program handles ROWS of n rows. `logits` has rows `stride` elements apart, each with its columns side by side;
    `gradient` is contiguous, and COLUMNS is a power of two of at least `classes`. `work` holds the log-sum-exp of each
    row in its second column and its weight in the fourth. `upstream` is the gradient of the result: one number per row,
    or one for all with a stride of 0. `target` holds class numbers; smoothing spreads SMOOTHING of each over all
    classes. A target out of range gives NaN.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    row_mask = row < n
    inside = row_mask[:, None] & (column[None, :] < classes)
    long_row = row.to(tl.int64)[:, None]
    z = tl.load(logits + long_row * stride + column[None, :], mask=inside, other=float("-inf")).to(tl.float64)
    log_softmax = z - tl.load(work + n + row, mask=row_mask, other=0.0)[:, None]
    factor = tl.load(work + 3 * n + row, mask=row_mask, other=0.0)  # the weight
    factor = factor * tl.load(upstream + row * upstream_stride, mask=row_mask, other=0.0).to(tl.float64)
    label = tl.load(target + row, mask=row_mask, other=0)
    factor = tl.where((label >= 0) & (label < classes), factor, float("nan"))
    # a gradient that is stored in float32 or less need not be computed in float64
    if logits.dtype.element_ty != tl.float64:
        log_softmax = log_softmax.to(tl.float32)
        factor = factor.to(tl.float32)
    target_share = tl.where(column[None, :] == label[:, None], 1.0, 0.0)
    if SMOOTHING != 0:
        target_share = (1 - SMOOTHING) * target_share.to(tl.float64) + SMOOTHING / classes.to(tl.float64)
    row_gradient = factor[:, None] * (tl.exp(log_softmax) - target_share.to(log_softmax.dtype))
    row_gradient = tl.where((label != ignore_index)[:, None], row_gradient, 0.0)
    tl.store(gradient + long_row * classes + column[None, :], row_gradient, mask=inside)
