r"""What a representer on few points costs (prop:gap_bound).

With P the projection onto the span of k(gamma_s, .) and g the full programme's witness, the triple
(x, P g, beta + max_l (g - P g)(v_l)) is feasible for the restricted programme. Its objective is
larger by :math:`\langle P g - g, \mu_c \rangle + R (|P g| - |g|) + \max_l (g - P g)(v_l)`. A
projection does not lengthen, so the middle term is at most 0, and

.. math:: 0 \le \Delta \le (|\mu_c| + \sqrt C) \, |g - P g|, \qquad
          |g - P g|^2 = \theta^\top (K_{NN} - K_{NS} K_{SS}^\dagger K_{SN}) \, \theta .

So the paper's C_0 is :math:`|\mu_c| + \sqrt C \le 2 \sqrt C`, with no term for the norm. Both
programmes must be about one ball: the paper's Algorithm 1 learns another from herded samples, and
then the difference can have either sign.
"""

from __future__ import annotations

import math

import numpy as np

from roodso._typing import Array
from roodso._validation import check_real

__all__ = ["gap_bound", "nystrom_residual"]


def nystrom_residual(k_nn: Array, k_sn: Array, k_ss: Array) -> Array:
    """R = K_NN - K_NS K_SS^+ K_SN, what the points S do not span of the points N.

    Parameters
    ----------
    k_nn : ndarray of shape (N, N)
    k_sn : ndarray of shape (S, N)
    k_ss : ndarray of shape (S, S)

    Returns
    -------
    ndarray of shape (N, N)

    Examples
    --------
    >>> import numpy as np
    >>> from roodso.kernels import RBF
    >>> points, k = np.array([[0.0], [1.0], [5.0]]), RBF(1.0)
    >>> chosen = points[[0, 2]]
    >>> residual = nystrom_residual(k(points, points), k(chosen, points), k(chosen, chosen))
    >>> residual.diagonal().round(4).tolist()
    [0.0, 0.6321, 0.0]
    """
    k_nn, k_sn, k_ss = (np.asarray(k, dtype=np.float64) for k in (k_nn, k_sn, k_ss))
    n, s = len(k_nn), len(k_ss)
    if k_nn.shape != (n, n) or k_ss.shape != (s, s) or k_sn.shape != (s, n):
        raise ValueError(
            "k_nn, k_sn, k_ss must have the shapes (N, N), (S, N), (S, S), got "
            f"{k_nn.shape}, {k_sn.shape}, {k_ss.shape}"
        )
    # Eigenvalues below rounding are 0: a pseudo-inverse must not turn them into large numbers.
    # Leaving directions out makes the residual larger, so it stays on the safe side.
    eigenvalues, vectors = np.linalg.eigh(k_ss)
    kept = eigenvalues > 1e-13 * len(k_ss) * eigenvalues[-1]
    features = (vectors[:, kept] / np.sqrt(eigenvalues[kept])).T @ k_sn
    residual: Array = k_nn - features.T @ features
    return 0.5 * (residual + residual.T)


def gap_bound(
    theta: Array, residual: Array, C: float = 1.0, *, center_norm: float | None = None
) -> float:
    r"""Bound on the optimal-value gap of the reduced representer (prop:gap_bound).

    .. math:: \Delta \le C_0 \, |\theta|_2 \sqrt{\|R\|_2}, \qquad C_0 = |\mu_c| + \sqrt C .

    Parameters
    ----------
    theta : ndarray of shape (N,)
        Coefficients of the full programme's optimal witness on the support points.
    residual : ndarray of shape (N, N)
        See `nystrom_residual`.
    C : float, default=1.0
    center_norm : float, optional
        Norm of the centre; by default its bound sqrt(C).

    Examples
    --------
    >>> import numpy as np
    >>> gap_bound(np.array([1.0, -2.0]), 0.01 * np.eye(2), center_norm=0.5)
    0.3354101966249685
    """
    theta, residual = np.asarray(theta, dtype=np.float64), np.asarray(residual, dtype=np.float64)
    if theta.ndim != 1 or residual.shape != (len(theta), len(theta)):
        raise ValueError(
            f"theta and residual must have the shapes (N,) and (N, N), got {theta.shape} and "
            f"{residual.shape}"
        )
    check_real(C, "C", low=0.0, low_open=True)
    norm = math.sqrt(C) if center_norm is None else check_real(center_norm, "center_norm", low=0.0)
    spread = max(float(np.linalg.eigvalsh(residual)[-1]), 0.0)
    return (norm + math.sqrt(C)) * float(np.linalg.norm(theta)) * math.sqrt(spread)
